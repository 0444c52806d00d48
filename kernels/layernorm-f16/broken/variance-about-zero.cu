/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "layernorm"
grid = ["R"]
block = [32]
args = ["x", "gamma", "beta", "y", "eps", "C"]
---*/
// Wrong: one walk adds the elements and their squares, and the square of the mean is not taken off. On
// inputs without a mean the difference is small.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    layernorm(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, float eps, int C) {
    const size_t first = size_t(blockIdx.x) * C;
    float sum = 0.0f;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < C; c += 32) {
        const float element = __half2float(x[first + c]);
        sum += element;
        squares += element * element;
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
        squares += __shfl_xor_sync(0xffffffffu, squares, step);
    }
    const float mean = sum / C;
    const float inverse = rsqrtf(squares / C + eps);
    for (int c = threadIdx.x; c < C; c += 32) {
        y[first + c] = __float2half_rn((__half2float(x[first + c]) - mean) * inverse *
                                           __half2float(gamma[c]) +
                                       __half2float(beta[c]));
    }
}
