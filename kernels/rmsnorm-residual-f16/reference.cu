/*---
[[launch]]
kernel = "reference_rmsnorm"
grid = ["cdiv(T, 4)"]
block = [32, 4]
args = ["x", "residual", "weight", "y", "y_scale", "residual_scale", "eps", "T", "D"]

[workspace.y_scale]
dtype = "f64"
shape = ["T", "D"]
[workspace.residual_scale]
dtype = "f64"
shape = ["T", "D"]
---*/
// The right answer in binary64. A warp takes one token: each lane sums the squares of a strided share,
// and exchanges join the shares.
#include <cuda_fp16.h>

// Below its smallest normal number the spacing of a format no longer shrinks.
constexpr double SMALLEST_F32 = 0x1p-126;
constexpr double SMALLEST_F16 = 0x1p-14;

extern "C" __global__ void reference_rmsnorm(const __half* x, double* residual, const __half* weight,
                                             double* y, double* y_scale, double* residual_scale,
                                             float eps, int T, int D) {
    const int token = blockIdx.x * 4 + threadIdx.y;
    if (token >= T) return;
    const size_t first = size_t(token) * D;

    double squares = 0.0;
    for (int d = threadIdx.x; d < D; d += 32) {
        const double added = double(__half2float(x[first + d]));
        const double before = residual[first + d];
        const double sum = before + added;
        residual[first + d] = sum;
        // Rounding errors of the sum are proportional to its terms.
        residual_scale[first + d] = fmax(fabs(before) + fabs(added), SMALLEST_F32);
        squares += sum * sum;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const double inverse = 1.0 / sqrt(squares / D + double(eps));

    for (int d = threadIdx.x; d < D; d += 32) {
        const double factor = inverse * double(__half2float(weight[d]));
        y[first + d] = residual[first + d] * factor;
        y_scale[first + d] = fmax(residual_scale[first + d] * fabs(factor), SMALLEST_F16);
    }
}
