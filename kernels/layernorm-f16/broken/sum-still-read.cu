/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "layernorm"
grid = ["R"]
block = [128]
args = ["x", "gamma", "beta", "y", "eps", "C"]
---*/
// Wrong: the second sum goes into the words of the first, which a slow warp may still read.
#include <cuda_fp16.h>

__device__ float add_block(float value, float* of_warp) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    return (of_warp[0] + of_warp[1]) + (of_warp[2] + of_warp[3]);
}

extern "C" __global__ void __launch_bounds__(128)
    layernorm(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, float eps, int C) {
    __shared__ float of_warp[4];
    const size_t first = size_t(blockIdx.x) * C;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 128) sum += __half2float(x[first + c]);
    const float mean = add_block(sum, of_warp) / C;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < C; c += 128) {
        const float difference = __half2float(x[first + c]) - mean;
        squares += difference * difference;
    }
    const float inverse = rsqrtf(add_block(squares, of_warp) / C + eps);
    for (int c = threadIdx.x; c < C; c += 128) {
        y[first + c] = __float2half_rn((__half2float(x[first + c]) - mean) * inverse *
                                           __half2float(gamma[c]) +
                                       __half2float(beta[c]));
    }
}
