"""The object layer of cuda-python."""

import unittest

import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, launch

import source


class Objects(unittest.TestCase):
    def setUp(self):
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.code = ObjectCode.from_ptx(source.ptx())

    def test_the_device_says_what_it_is(self):
        self.assertIn("emulated", self.device.name)
        self.assertEqual(tuple(self.device.compute_capability), (8, 9))
        self.assertEqual(self.device.properties.warp_size, 32)

    def test_a_kernel_runs(self):
        kernel = self.code.get_kernel("axpy")
        n = 1000
        buffers = [self.device.allocate(4 * n, stream=self.stream) for _ in range(2)]
        from cuda.bindings import driver as cu
        ones = np.ones(n, dtype=np.float32)
        for buffer in buffers:
            cu.cuMemcpyHtoDAsync(int(buffer.handle), ones.ctypes.data, 4 * n, self.stream.handle)
        config = LaunchConfig(grid=8, block=128)
        launch(self.stream, config, kernel, np.float32(2), buffers[0], buffers[1], np.int32(n))
        self.stream.sync()
        back = np.empty(n, dtype=np.float32)
        cu.cuMemcpyDtoH(back.ctypes.data, int(buffers[1].handle), 4 * n)
        np.testing.assert_array_equal(back, 3)

    def test_kernels_have_attributes(self):
        kernel = self.code.get_kernel("block_sum")
        self.assertGreater(kernel.attributes.num_regs, 0)
        self.assertEqual(kernel.num_arguments, 3)
        self.assertGreater(kernel.occupancy.max_active_blocks_per_multiprocessor(256, 1024), 0)

    def test_events_are_ordered_and_timed(self):
        from cuda.core import EventOptions
        options = EventOptions(timing_enabled=True)
        start = self.stream.record(options=options)
        end = self.stream.record(options=options)
        end.sync()
        self.assertGreaterEqual(end - start, 0)
        self.device.create_stream().wait(end)
