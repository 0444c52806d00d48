"""The kernels of the examples, and PTX made of them by NVIDIA's run-time compiler."""

import ctypes
import glob
import os

TEXT = r"""
extern "C" __constant__ float weight[4] = {1.0f, 2.0f, 3.0f, 4.0f};

extern "C" __global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sum(const float *x, float *sums, int n) {
    extern __shared__ float part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void weighted(float *out) { out[threadIdx.x] = weight[threadIdx.x]; }

extern "C" __global__ void past_the_end(int *out) { out[1 << 20] = 1; }
"""

ARCHITECTURE = b"--gpu-architecture=compute_89"


def library():
    """NVRTC from whichever folder of the library path has it."""
    for folder in os.environ["LD_LIBRARY_PATH"].split(":"):
        for path in glob.glob(f"{folder}/libnvrtc.so.*"):
            return ctypes.CDLL(path)
    raise FileNotFoundError("libnvrtc on LD_LIBRARY_PATH")


def ptx(text=TEXT, *options):
    nvrtc = library()
    program = ctypes.c_void_p()

    def call(name, *arguments):
        code = getattr(nvrtc, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"example.cu", 0, None, None)
    flags = [ARCHITECTURE, *(option.encode() for option in options)]
    call("nvrtcCompileProgram", program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    size = ctypes.c_size_t()
    call("nvrtcGetPTXSize", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    call("nvrtcGetPTX", program, buffer)
    call("nvrtcDestroyProgram", ctypes.byref(program))
    return buffer.value
