/*---
[[launch]]
kernel = "reference_rmsnorm"
grid = ["T"]
block = [128]
args = ["x", "residual", "weight", "y", "y_scale", "residual_scale", "eps", "D"]

[workspace.y_scale]
dtype = "f64"
shape = ["T", "D"]
[workspace.residual_scale]
dtype = "f64"
shape = ["T", "D"]
---*/
// The right answer in binary64. A block takes one token; each thread sums the squares of a strided
// share, and one thread adds the shares in order.
#include <cuda_fp16.h>

constexpr int THREADS = 128;
// Below its smallest normal number the spacing of a format no longer shrinks.
constexpr double SMALLEST_F32 = 0x1p-126;
constexpr double SMALLEST_F16 = 0x1p-14;

extern "C" __global__ void reference_rmsnorm(const __half* x, double* residual, const __half* weight,
                                             double* y, double* y_scale, double* residual_scale,
                                             float eps, int D) {
    const size_t first = size_t(blockIdx.x) * D;
    __shared__ double share[THREADS];
    __shared__ double inverse;

    double squares = 0.0;
    for (int d = threadIdx.x; d < D; d += THREADS) {
        const double added = double(__half2float(x[first + d]));
        const double before = residual[first + d];
        const double sum = before + added;
        residual[first + d] = sum;
        // Rounding errors of the sum are proportional to its terms.
        residual_scale[first + d] = fmax(fabs(before) + fabs(added), SMALLEST_F32);
        squares += sum * sum;
    }
    share[threadIdx.x] = squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < THREADS; ++t) squares += share[t];
        inverse = 1.0 / sqrt(squares / D + double(eps));
    }
    __syncthreads();

    for (int d = threadIdx.x; d < D; d += THREADS) {
        const double factor = inverse * double(__half2float(weight[d]));
        y[first + d] = residual[first + d] * factor;
        y_scale[first + d] = fmax(residual_scale[first + d] * fabs(factor), SMALLEST_F16);
    }
}
