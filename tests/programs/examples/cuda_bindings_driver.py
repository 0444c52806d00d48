"""The driver API through cuda-python's low-level bindings."""

import ctypes
import unittest

import numpy as np
from cuda.bindings import driver as cu

import source

N = 10_000


def ok(answer):
    code, *values = answer
    if code != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(code.name)
    return values[0] if len(values) == 1 else values


class WithContext(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ok(cu.cuInit(0))
        cls.device = ok(cu.cuDeviceGet(0))
        cls.context = ok(cu.cuDevicePrimaryCtxRetain(cls.device))
        ok(cu.cuCtxSetCurrent(cls.context))
        cls.ptx = source.ptx()
        cls.module = ok(cu.cuModuleLoadData(cls.ptx))

    @classmethod
    def tearDownClass(cls):
        ok(cu.cuDevicePrimaryCtxRelease(cls.device))

    def kernel(self, name):
        return ok(cu.cuModuleGetFunction(self.module, name))

    def upload(self, array):
        address = ok(cu.cuMemAlloc(array.nbytes))
        ok(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
        self.addCleanup(lambda: ok(cu.cuMemFree(address)))
        return address

    def axpy(self, stream, x, y, n, launch=None):
        values = (2.0, int(x), int(y), n)
        kinds = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        launch = launch or cu.cuLaunchKernel
        return launch(self.kernel(b"axpy"), (n + 255) // 256, 1, 1, 256, 1, 1, 0, stream, (values, kinds), 0)


class Kernels(WithContext):
    def test_a_kernel_runs_from_ptx(self):
        x = np.arange(N, dtype=np.float32)
        y = np.ones(N, dtype=np.float32)
        on_device = self.upload(y)
        stream = ok(cu.cuStreamCreate(0))
        ok(self.axpy(stream, self.upload(x), on_device, N))
        ok(cu.cuStreamSynchronize(stream))
        back = np.empty_like(y)
        ok(cu.cuMemcpyDtoH(back.ctypes.data, on_device, back.nbytes))
        np.testing.assert_array_equal(back, 2 * x + y)
        ok(cu.cuStreamDestroy(stream))

    def test_dynamic_shared_memory(self):
        x = np.random.default_rng(1).random(N, dtype=np.float32)
        sums = np.zeros(40, dtype=np.float32)
        on_device = self.upload(sums)
        arguments = ((int(self.upload(x)), int(on_device), N), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
        ok(cu.cuLaunchKernel(self.kernel(b"block_sum"), 40, 1, 1, 256, 1, 1, 1024, 0, arguments, 0))
        ok(cu.cuMemcpyDtoH(sums.ctypes.data, on_device, sums.nbytes))
        np.testing.assert_allclose(sums.sum(), x.sum(), rtol=1e-5)

    def test_constants_are_set_by_name(self):
        address, size = ok(cu.cuModuleGetGlobal(self.module, b"weight"))
        self.assertEqual(size, 16)
        weights = np.array([5, 6, 7, 8], dtype=np.float32)
        ok(cu.cuMemcpyHtoD(address, weights.ctypes.data, 16))
        out = self.upload(np.zeros(4, dtype=np.float32))
        ok(cu.cuLaunchKernel(self.kernel(b"weighted"), 1, 1, 1, 4, 1, 1, 0, 0, ((int(out),), (ctypes.c_void_p,)), 0))
        back = np.empty(4, dtype=np.float32)
        ok(cu.cuMemcpyDtoH(back.ctypes.data, out, 16))
        np.testing.assert_array_equal(back, weights)

    def test_attributes_and_occupancy(self):
        kernel = self.kernel(b"axpy")
        registers = ok(cu.cuFuncGetAttribute(cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, kernel))
        self.assertGreater(registers, 0)
        self.assertGreater(ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 256, 0)), 0)
        _, block = ok(cu.cuOccupancyMaxPotentialBlockSize(kernel, None, 0, 0))
        self.assertGreaterEqual(block, 32)

    def test_a_cooperative_launch_knows_its_limit(self):
        x = self.upload(np.zeros(N, dtype=np.float32))
        arguments = ((2.0, int(x), int(x), N), (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
        kernel = self.kernel(b"axpy")
        ok(cu.cuLaunchCooperativeKernel(kernel, 40, 1, 1, 256, 1, 1, 0, 0, arguments))
        code, = cu.cuLaunchCooperativeKernel(kernel, 1 << 20, 1, 1, 256, 1, 1, 0, 0, arguments)
        self.assertEqual(code, cu.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)

    def test_a_library_needs_no_context(self):
        library = ok(cu.cuLibraryLoadData(self.ptx, [], [], 0, [], [], 0))
        kernel = ok(cu.cuLibraryGetKernel(library, b"axpy"))
        function = ok(cu.cuKernelGetFunction(kernel))
        self.assertEqual(ok(cu.cuFuncGetName(function)), b"axpy")
        ok(cu.cuLibraryUnload(library))

    def test_two_texts_are_linked(self):
        caller = source.ptx('extern "C" __device__ int twice(int); extern "C" __global__ void k(int *o)'
                            "{ *o = twice(21); }", "-rdc=true")
        callee = source.ptx('extern "C" __device__ int twice(int x) { return 2 * x; }', "-rdc=true")
        link = ok(cu.cuLinkCreate(0, [], []))
        for text in (caller, callee):
            kind = cu.CUjitInputType.CU_JIT_INPUT_PTX
            ok(cu.cuLinkAddData(link, kind, text, len(text), b"part", 0, [], []))
        image, _ = ok(cu.cuLinkComplete(link))
        module = ok(cu.cuModuleLoadData(image))
        ok(cu.cuLinkDestroy(link))
        out = self.upload(np.zeros(1, dtype=np.int32))
        kernel = ok(cu.cuModuleGetFunction(module, b"k"))
        ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((int(out),), (ctypes.c_void_p,)), 0))
        back = np.empty(1, dtype=np.int32)
        ok(cu.cuMemcpyDtoH(back.ctypes.data, out, 4))
        self.assertEqual(back[0], 42)


class Memory(WithContext):
    def floats(self, address, count):
        return np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(address)))

    def test_managed_memory_is_seen_by_both(self):
        flag = cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
        address = ok(cu.cuMemAllocManaged(4 * N, flag))
        self.floats(address, N)[:] = 3
        ok(self.axpy(0, address, address, N))
        ok(cu.cuCtxSynchronize())
        np.testing.assert_array_equal(self.floats(address, N), 9)
        ok(cu.cuMemFree(address))

    def test_page_locked_memory_has_one_address(self):
        host = ok(cu.cuMemHostAlloc(4 * N, 0))
        self.assertEqual(int(ok(cu.cuMemHostGetDevicePointer(host, 0))), int(host))
        self.floats(host, N)[:] = 1
        ok(self.axpy(0, host, host, N))
        ok(cu.cuCtxSynchronize())
        np.testing.assert_array_equal(self.floats(host, N), 3)
        ok(cu.cuMemFreeHost(host))

    def test_stream_ordered_allocation(self):
        stream = ok(cu.cuStreamCreate(0))
        address = ok(cu.cuMemAllocAsync(4 * N, stream))
        ok(cu.cuMemsetD32Async(address, 7, N, stream))
        back = np.empty(N, dtype=np.uint32)
        ok(cu.cuMemcpyDtoHAsync(back.ctypes.data, address, back.nbytes, stream))
        ok(cu.cuMemFreeAsync(address, stream))
        ok(cu.cuStreamSynchronize(stream))
        np.testing.assert_array_equal(back, 7)
        ok(cu.cuStreamDestroy(stream))

    def test_events_measure_time(self):
        x = self.upload(np.zeros(N, dtype=np.float32))
        start, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
        ok(cu.cuEventRecord(start, 0))
        ok(self.axpy(0, x, x, N))
        ok(cu.cuEventRecord(end, 0))
        ok(cu.cuEventSynchronize(end))
        self.assertGreater(ok(cu.cuEventElapsedTime(start, end)), 0)

    def test_pointers_know_their_range(self):
        address = self.upload(np.zeros(N, dtype=np.float32))
        base, size = ok(cu.cuMemGetAddressRange(int(address) + 64))
        self.assertEqual((int(base), size), (int(address), 4 * N))


class Errors(WithContext):
    def test_machine_code_is_refused(self):
        code, _ = cu.cuModuleLoadData(b"\x7fELF" + bytes(60))
        self.assertEqual(code, cu.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)

    def test_no_ptx_is_refused(self):
        code, _ = cu.cuModuleLoadData(b"this is no PTX\0")
        self.assertEqual(code, cu.CUresult.CUDA_ERROR_INVALID_PTX)

    def test_unknown_names_are_not_found(self):
        code, _ = cu.cuModuleGetFunction(self.module, b"nothing")
        self.assertEqual(code, cu.CUresult.CUDA_ERROR_NOT_FOUND)

    def test_too_much_memory_is_refused(self):
        code, _ = cu.cuMemAlloc(1 << 60)
        self.assertEqual(code, cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)


class ZFault(WithContext):
    """Last by name: after it the context is lost."""

    def test_a_fault_surfaces_at_the_next_wait(self):
        out = ok(cu.cuMemAlloc(64))
        arguments = ((int(out),), (ctypes.c_void_p,))
        ok(cu.cuLaunchKernel(self.kernel(b"past_the_end"), 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        for _ in range(2):
            code, = cu.cuCtxSynchronize()
            self.assertEqual(code, cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
