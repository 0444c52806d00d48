/*---
[[launch]]
kernel = "check_rmsnorm"
grid = ["cdiv(T, 32)"]
block = [32]
args = ["x", "residual", "weight", "y", "y_scale", "residual_scale", "eps", "T", "D"]

[workspace.y_scale]
dtype = "f64"
shape = ["T", "D"]
[workspace.residual_scale]
dtype = "f64"
shape = ["T", "D"]
---*/
// The second opinion: one thread per token adds the squares from the last channel to the first, and y
// is the quotient by the root, not a product with its inverse.
#include <cuda_fp16.h>

extern "C" __global__ void check_rmsnorm(const __half* x, double* residual, const __half* weight,
                                         double* y, double* y_scale, double* residual_scale, float eps,
                                         int T, int D) {
    const int token = blockIdx.x * 32 + threadIdx.x;
    if (token >= T) return;
    const size_t first = size_t(token) * D;
    double squares = 0.0;
    for (int d = D - 1; d >= 0; --d) {
        const double added = double(__half2float(x[first + d]));
        const double sum = residual[first + d] + added;
        residual_scale[first + d] = fmax(fabs(residual[first + d]) + fabs(added), 0x1p-126);
        residual[first + d] = sum;
        squares += sum * sum;
    }
    const double root = sqrt(squares / D + double(eps));
    for (int d = 0; d < D; ++d) {
        const double w = double(__half2float(weight[d]));
        y[first + d] = residual[first + d] / root * w;
        y_scale[first + d] = fmax(residual_scale[first + d] / root * fabs(w), 0x1p-14);
    }
}
