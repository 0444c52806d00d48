/*---
[idea]
title = "add and normalise in one kernel"
hypothesis = """
Two kernels write the sum and read it back, twice. One block that adds a token and normalises it \
reads each input once from memory, finds the sum in the cache for the second walk, and saves a launch. \
Shuffles add the squares without a barrier per halving."""
gain = [1.3, 2.5]

[step]
phase = "memory"
sweep = ["THREADS"]

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = ["THREADS"]
args = ["x", "residual", "weight", "y", "eps", "D"]

[tunables.THREADS]
value = 256
choices = [128, 256, 512, 1024]
---*/
#include <cuda_fp16.h>

constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

// Adds one value of every thread of the block; all threads get the sum.
__device__ float add_block(float value) {
    __shared__ float of_warp[WARPS];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int w = 1; w < WARPS; ++w) value += of_warp[w];
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm(const __half* __restrict__ x, float* __restrict__ residual,
            const __half* __restrict__ weight, __half* __restrict__ y, float eps, int D) {
    const size_t first = size_t(blockIdx.x) * D;
    float squares = 0.0f;
    for (int d = threadIdx.x; d < D; d += THREADS) {
        const float sum = residual[first + d] + __half2float(x[first + d]);
        residual[first + d] = sum;
        squares += sum * sum;
    }
    const float inverse = rsqrtf(add_block(squares) / D + eps);
    // Each thread reads what it wrote itself.
    for (int d = threadIdx.x; d < D; d += THREADS) {
        y[first + d] = __float2half_rn(residual[first + d] * inverse * __half2float(weight[d]));
    }
}
