/*---
[[launch]]
kernel = "softmax"
grid = ["R"]
block = [256]
args = ["x", "y", "C"]
---*/
// Generation 0: a block per row and three walks over it, for the maximum, the mass and the quotients, one
// element of two bytes at a time, with a tree in shared memory for each of the two sums.
#include <cuda_fp16.h>

constexpr int THREADS = 256;

template <bool MAXIMUM>
__device__ float join_block(float value) {
    __shared__ float values[THREADS];
    __syncthreads();  // the last result may still be read
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float a = values[threadIdx.x];
            const float b = values[threadIdx.x + half];
            values[threadIdx.x] = MAXIMUM ? fmaxf(a, b) : a + b;
        }
    }
    __syncthreads();
    return values[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const __half* __restrict__ x, float* __restrict__ y, int C) {
    const __half* from = x + size_t(blockIdx.x) * C;
    float* to = y + size_t(blockIdx.x) * C;

    float largest = -INFINITY;
    for (int c = threadIdx.x; c < C; c += THREADS) largest = fmaxf(largest, __half2float(from[c]));
    largest = join_block<true>(largest);

    float mass = 0.0f;
    for (int c = threadIdx.x; c < C; c += THREADS) mass += expf(__half2float(from[c]) - largest);
    const float inverse = 1.0f / join_block<false>(mass);

    for (int c = threadIdx.x; c < C; c += THREADS) {
        to[c] = expf(__half2float(from[c]) - largest) * inverse;
    }
}
