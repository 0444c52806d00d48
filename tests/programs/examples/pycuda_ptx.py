"""PyCUDA with PTX instead of sources: its own way to sources is nvcc, which no package carries."""

import unittest

import numpy as np
import pycuda.driver as cuda
from pycuda import gpuarray, tools

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

    def test_arrays_of_the_device_are_copied_and_cut(self):
        x = np.arange(60, dtype=np.float32).reshape(6, 10)
        on_device = gpuarray.to_gpu(x)
        np.testing.assert_array_equal(on_device.get(), x)
        np.testing.assert_array_equal(on_device[2:4].get(), x[2:4])
        np.testing.assert_array_equal(on_device[:, 3:7].get(), x[:, 3:7])
        np.testing.assert_array_equal(on_device.reshape(60)[7:9].get(), x.ravel()[7:9])
        other = gpuarray.empty_like(on_device)
        cuda.memcpy_dtod(other.gpudata, on_device.gpudata, on_device.nbytes)
        np.testing.assert_array_equal(other.get(), on_device.get())

    def test_a_kernel_takes_arrays_of_the_device(self):
        x = gpuarray.to_gpu(np.full(1000, 3, dtype=np.float32))
        y = gpuarray.to_gpu(np.zeros(1000, dtype=np.float32))
        self.module.get_function("axpy")(
            np.float32(2), x, y, np.int32(1000), block=(128, 1, 1), grid=(8, 1))
        self.assertEqual(set(y.get().tolist()), {6.0})

    def test_copies_go_through_streams_in_order(self):
        streams = [cuda.Stream() for _ in range(3)]
        host = [cuda.pagelocked_empty(500, np.float32) for _ in streams]
        arrays = []
        for number, (stream, memory) in enumerate(zip(streams, host)):
            memory[:] = number
            arrays.append(gpuarray.to_gpu_async(memory, stream=stream))
        event = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        event.record(streams[0])
        streams[1].wait_for_event(event)
        for number, (stream, array) in enumerate(zip(streams, arrays)):
            back = array.get_async(stream=stream)
            stream.synchronize()
            self.assertEqual(set(back.tolist()), {float(number)})
        self.assertTrue(event.query())

    def test_pools_keep_what_was_freed(self):
        pool = tools.DeviceMemoryPool()
        first = pool.allocate(10_000)
        second = gpuarray.to_gpu(np.ones(100, np.float32), allocator=pool.allocate)
        self.assertEqual(pool.active_blocks, 2)
        first.free()
        self.assertEqual((pool.active_blocks, pool.held_blocks), (1, 1))
        again = pool.allocate(10_000)
        self.assertEqual((pool.active_blocks, pool.held_blocks), (2, 0))
        self.assertEqual(second.get().sum(), 100)
        again.free()
        pool.free_held()
        self.assertEqual(pool.held_blocks, 0)
        locked = tools.PageLockedMemoryPool()
        memory = locked.allocate((100,), np.float32)
        memory[:] = 5
        self.assertEqual(gpuarray.to_gpu(memory).get().sum(), 500)

    def test_contexts_form_a_stack(self):
        outer = cuda.Context.get_current()
        self.assertEqual(outer, self.context)
        inner = cuda.Device(0).make_context()
        try:
            self.assertEqual(cuda.Context.get_current(), inner)
            inside = cuda.mem_alloc(16)
            cuda.memset_d8(inside, 7, 16)
            self.assertEqual(set(cuda.from_device(inside, 16, np.uint8).tolist()), {7})
            inside.free()
        finally:
            inner.pop()
            inner.detach()
        self.assertEqual(cuda.Context.get_current(), outer)
        free, total = cuda.mem_get_info()
        self.assertGreater(free, 0)
        self.assertGreaterEqual(total, free)

    def test_boxes_are_copied(self):
        box = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
        on_device, pitch = cuda.mem_alloc_pitch(16, 2 * 3, 4)
        copy = cuda.Memcpy3D()
        copy.set_src_host(box)
        copy.set_dst_device(on_device)
        copy.src_pitch, copy.src_height = 16, 3
        copy.dst_pitch, copy.dst_height = pitch, 3
        copy.width_in_bytes, copy.height, copy.depth = 16, 3, 2
        copy()
        row = cuda.from_device(int(on_device) + 4 * pitch, (4,), np.float32)
        np.testing.assert_array_equal(row, box[1, 1])

    def test_errors_become_exceptions(self):
        with self.assertRaises(cuda.MemoryError):
            cuda.mem_alloc(1 << 60)
        with self.assertRaises(cuda.LogicError):
            self.module.get_function("nothing")
        with self.assertRaises(cuda.RuntimeError):
            cuda.module_from_buffer(b"\x7fELF" + bytes(60))
