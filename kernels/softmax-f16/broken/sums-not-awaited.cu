/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "softmax"
grid = ["4", "R"]
block = [32]
args = ["x", "sums", "y", "C"]

[workspace.sums]
dtype = "f32"
shape = ["R", "4"]
---*/
// Wrong: four blocks of one launch add up the exponentials of a row, and each reads the sums of the others
// without waiting for them: nothing orders the blocks of a launch. (The elements are taken to be small
// enough to need no maximum, which is the smaller mistake.)
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    softmax(const __half* __restrict__ x, float* sums, float* __restrict__ y, int C) {
    const __half* from = x + size_t(blockIdx.y) * C;
    const int first = blockIdx.x * 32 + threadIdx.x;
    float mass = 0.0f;
    for (int c = first; c < C; c += 128) mass += expf(__half2float(from[c]));
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(0xffffffffu, mass, step);
    float* of_row = sums + 4 * blockIdx.y;
    if (threadIdx.x == 0) of_row[blockIdx.x] = mass;  // <- finding
    __syncthreads();
    const float all = (of_row[0] + of_row[1]) + (of_row[2] + of_row[3]);
    for (int c = first; c < C; c += 128) {
        y[size_t(blockIdx.y) * C + c] = expf(__half2float(from[c])) / all;
    }
}
