/*---
[[launch]]
kernel = "layernorm"
grid = ["R"]
block = [256]
args = ["x", "gamma", "beta", "y", "eps", "C"]
---*/
// Generation 0: a block per row and three walks over it, for the mean, the variance and the result,
// one channel at a time, with a tree in shared memory for each sum.
#include <cuda_fp16.h>

constexpr int THREADS = 256;

// Adds one value of every thread of the block; all threads get the sum.
__device__ float add_block(float value) {
    __shared__ float sums[THREADS];
    __syncthreads();  // the last sum may still be read
    sums[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm(const __half* __restrict__ x, const __half* __restrict__ gamma,
              const __half* __restrict__ beta, __half* __restrict__ y, float eps, int C) {
    const size_t first = size_t(blockIdx.x) * C;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += THREADS) sum += __half2float(x[first + c]);
    const float mean = add_block(sum) / C;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < C; c += THREADS) {
        const float difference = __half2float(x[first + c]) - mean;
        squares += difference * difference;
    }
    const float inverse = rsqrtf(add_block(squares) / C + eps);
    for (int c = threadIdx.x; c < C; c += THREADS) {
        y[first + c] = __float2half_rn((__half2float(x[first + c]) - mean) * inverse *
                                           __half2float(gamma[c]) +
                                       __half2float(beta[c]));
    }
}
