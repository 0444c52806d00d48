/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "softmax"
grid = ["cdiv(C, 1024)", "R"]
block = [32]
args = ["x", "y", "C"]
---*/
// Wrong: every slice of 1,024 elements is divided by its own mass. Rows that are no longer than a slice
// hide it.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    softmax(const __half* __restrict__ x, float* __restrict__ y, int C) {
    const __half* from = x + size_t(blockIdx.y) * C;
    const int begin = blockIdx.x * 1024;
    const int end = min(begin + 1024, C);
    float largest = -INFINITY;
    for (int c = begin + threadIdx.x; c < end; c += 32) largest = fmaxf(largest, __half2float(from[c]));
    for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    float mass = 0.0f;
    for (int c = begin + threadIdx.x; c < end; c += 32) mass += expf(__half2float(from[c]) - largest);
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(0xffffffffu, mass, step);
    for (int c = begin + threadIdx.x; c < end; c += 32) {
        y[size_t(blockIdx.y) * C + c] = expf(__half2float(from[c]) - largest) / mass;
    }
}
