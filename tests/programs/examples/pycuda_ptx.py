"""PyCUDA with PTX instead of sources: its own way to sources is nvcc, which no package carries."""

import unittest

import numpy as np
import pycuda.driver as cuda

import source


class FromPtx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cuda.init()
        cls.context = cuda.Device(0).make_context()
        cls.module = cuda.module_from_buffer(source.ptx())

    @classmethod
    def tearDownClass(cls):
        cls.context.pop()

    def test_the_device_says_what_it_is(self):
        device = cuda.Device(0)
        self.assertIn("emulated", device.name())
        self.assertEqual(device.compute_capability(), (8, 9))
        self.assertEqual(device.get_attribute(cuda.device_attribute.WARP_SIZE), 32)
        self.assertGreater(len(device.get_attributes()), 50)

    def test_arrays_go_in_and_out(self):
        x = np.random.default_rng(1).random(5000, dtype=np.float32)
        y = np.ones_like(x)
        expected = 2 * x + y
        self.module.get_function("axpy")(
            np.float32(2), cuda.In(x), cuda.InOut(y), np.int32(len(x)), block=(128, 1, 1), grid=(40, 1))
        np.testing.assert_allclose(y, expected, rtol=1e-6)

    def test_prepared_calls_and_shared_memory(self):
        x = np.arange(1024, dtype=np.float32)
        on_device, sums = cuda.to_device(x), cuda.mem_alloc(16)
        kernel = self.module.get_function("block_sum")
        kernel.prepare("PPi")
        kernel.prepared_call((4, 1), (256, 1, 1), on_device, sums, 1024, shared_size=1024)
        back = cuda.from_device(sums, 4, np.float32)
        self.assertEqual(back.sum(), x.sum())
        self.assertGreater(kernel.num_regs, 0)

    def test_constants(self):
        address, size = self.module.get_global("weight")
        self.assertEqual(size, 16)
        cuda.memcpy_htod(address, np.full(4, 9, dtype=np.float32))
        out = np.zeros(4, dtype=np.float32)
        self.module.get_function("weighted")(cuda.Out(out), block=(4, 1, 1), grid=(1, 1))
        np.testing.assert_array_equal(out, 9)

    def test_streams_and_events(self):
        stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
        x = cuda.pagelocked_zeros(1000, np.float32)
        on_device = cuda.mem_alloc(4000)
        start.record(stream)
        cuda.memcpy_htod_async(on_device, x, stream)
        end.record(stream)
        end.synchronize()
        self.assertGreater(start.time_till(end), 0)
        self.assertTrue(stream.is_done())

    def test_managed_and_mapped_memory(self):
        managed = cuda.managed_zeros(100, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
        managed += 1
        self.module.get_function("axpy")(
            np.float32(2), managed, managed, np.int32(100), block=(128, 1, 1), grid=(1, 1))
        self.context.synchronize()
        np.testing.assert_array_equal(managed, 3)

    def test_rectangles(self):
        rows = np.arange(24, dtype=np.float32).reshape(4, 6)
        on_device, pitch = cuda.mem_alloc_pitch(24, 4, 4)
        copy = cuda.Memcpy2D()
        copy.set_src_host(rows)
        copy.set_dst_device(on_device)
        copy.src_pitch, copy.dst_pitch = 24, pitch
        copy.width_in_bytes, copy.height = 24, 4
        copy(aligned=True)
        back = np.zeros_like(rows)
        copy = cuda.Memcpy2D()
        copy.set_src_device(on_device)
        copy.set_dst_host(back)
        copy.src_pitch, copy.dst_pitch = pitch, 24
        copy.width_in_bytes, copy.height = 24, 4
        copy(aligned=True)
        np.testing.assert_array_equal(back, rows)

    def test_errors_become_exceptions(self):
        with self.assertRaises(cuda.MemoryError):
            cuda.mem_alloc(1 << 60)
        with self.assertRaises(cuda.LogicError):
            self.module.get_function("nothing")
        with self.assertRaises(cuda.RuntimeError):
            cuda.module_from_buffer(b"\x7fELF" + bytes(60))
