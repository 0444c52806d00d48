/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "layernorm"
grid = ["R"]
block = [32]
args = ["x", "gamma", "beta", "y", "eps", "C"]
---*/
// Wrong: the sums run over whole warps of channels and are divided by C. Rows of 768 or 8,192 hide it.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    layernorm(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, float eps, int C) {
    const size_t first = size_t(blockIdx.x) * C;
    const int whole = max(C / 32 * 32, 32);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < min(whole, C); c += 32) sum += __half2float(x[first + c]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const float mean = sum / C;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < min(whole, C); c += 32) {
        const float difference = __half2float(x[first + c]) - mean;
        squares += difference * difference;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float inverse = rsqrtf(squares / C + eps);
    for (int c = threadIdx.x; c < C; c += 32) {
        y[first + c] = __float2half_rn((__half2float(x[first + c]) - mean) * inverse *
                                           __half2float(gamma[c]) +
                                       __half2float(beta[c]));
    }
}
