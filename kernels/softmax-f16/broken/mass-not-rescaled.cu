/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "softmax"
grid = ["R"]
block = [32]
args = ["x", "y", "C"]
---*/
// Wrong: when a larger element comes, the mass so far stays relative to the old maximum. A row that begins
// with its largest element hides it.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    softmax(const __half* __restrict__ x, float* __restrict__ y, int C) {
    const __half* from = x + size_t(blockIdx.x) * C;
    float largest = -INFINITY;
    float mass = 0.0f;
    for (int first = 0; first < C; first += 32) {
        const int c = first + threadIdx.x;
        const float element = c < C ? __half2float(from[c]) : -INFINITY;
        float grown = fmaxf(largest, element);
        for (int step = 16; step > 0; step /= 2) {
            grown = fmaxf(grown, __shfl_xor_sync(0xffffffffu, grown, step));
        }
        largest = grown;
        mass += expf(element - largest);
    }
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(0xffffffffu, mass, step);
    for (int c = threadIdx.x; c < C; c += 32) {
        y[size_t(blockIdx.x) * C + c] = expf(__half2float(from[c]) - largest) / mass;
    }
}
