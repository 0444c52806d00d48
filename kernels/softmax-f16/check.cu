/*---
[[launch]]
kernel = "check_softmax"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The second opinion: a thread walks over its row once, from the end, with the mass kept relative to a
// running maximum, and never subtracts the final maximum: y = exp(x - log(sum of exp)).
#include <cuda_fp16.h>

extern "C" __global__ void check_softmax(const __half* x, double* y, double* y_scale, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    const __half* from = x + size_t(row) * C;

    double largest = __half2float(from[C - 1]);
    double mass = 1.0;
    for (int c = C - 2; c >= 0; --c) {
        const double element = __half2float(from[c]);
        if (element > largest) {
            mass = mass * exp(largest - element) + 1.0;
            largest = element;
        } else {
            // Equal infinities have no difference, and the same weight.
            mass += element == largest ? 1.0 : exp(element - largest);
        }
    }
    // Beside an infinite element no other has a weight, and its own is infinity over infinity.
    if (largest == INFINITY) mass = NAN;
    const double log_sum = largest + log(mass);
    for (int c = 0; c < C; ++c) {
        const double element = __half2float(from[c]);
        const double quotient = exp(element - log_sum);
        y[size_t(row) * C + c] = quotient;
        // As in reference.cu.
        y_scale[size_t(row) * C + c] = fmax(quotient * (1.0 + fabs(element - largest)), 0x1p-126);
    }
}
