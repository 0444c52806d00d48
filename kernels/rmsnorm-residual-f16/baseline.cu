/*---
[[launch]]
kernel = "add_residual"
grid = ["cdiv(T * D, 256)"]
block = [256]
args = ["x", "residual", "T", "D"]

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = [256]
args = ["residual", "weight", "y", "eps", "D"]
---*/
// Generation 0: the addition and the normalisation as two kernels, as a framework runs them. The
// second one reads each token twice, one channel at a time, and adds in a tree in shared memory.
#include <cuda_fp16.h>

constexpr int THREADS = 256;

extern "C" __global__ void add_residual(const __half* __restrict__ x, float* __restrict__ residual,
                                        int T, int D) {
    const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= size_t(T) * D) return;
    residual[at] += __half2float(x[at]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm(const float* __restrict__ residual, const __half* __restrict__ weight,
            __half* __restrict__ y, float eps, int D) {
    __shared__ float sums[THREADS];
    const size_t first = size_t(blockIdx.x) * D;
    float squares = 0.0f;
    for (int d = threadIdx.x; d < D; d += THREADS) {
        const float r = residual[first + d];
        squares += r * r;
    }
    sums[threadIdx.x] = squares;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    const float inverse = rsqrtf(sums[0] / D + eps);
    for (int d = threadIdx.x; d < D; d += THREADS) {
        y[first + d] = __float2half_rn(residual[first + d] * inverse * __half2float(weight[d]));
    }
}
