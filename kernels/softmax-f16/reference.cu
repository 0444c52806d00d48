/*---
[[launch]]
kernel = "reference_softmax"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["x", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The right answer in binary64: the row's maximum, its mass, the quotients. A warp takes one row:
// each lane computes maximum and mass of a strided share, and exchanges join the shares.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void reference_softmax(const __half* x, double* y, double* y_scale, int R,
                                             int C) {
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= R) return;
    const size_t first = size_t(row) * C;
    const int lane = threadIdx.x;

    double largest = -INFINITY;
    for (int c = lane; c < C; c += 32) largest = fmax(largest, double(__half2float(x[first + c])));
    for (int step = 16; step > 0; step /= 2) largest = fmax(largest, __shfl_xor_sync(ALL, largest, step));

    double mass = 0.0;
    for (int c = lane; c < C; c += 32) {
        const double e = exp(double(__half2float(x[first + c])) - largest);
        y[first + c] = e;
        mass += e;
    }
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(ALL, mass, step);

    for (int c = lane; c < C; c += 32) {
        const double quotient = y[first + c] / mass;
        y[first + c] = quotient;
        // The rounding of x - largest grows with the difference and becomes a relative error of the
        // exponential. Below the smallest normal number of f32 the spacing is that number's.
        const double distance = fabs(double(__half2float(x[first + c])) - largest);
        y_scale[first + c] = fmax(quotient * (1.0 + distance), 0x1p-126);
    }
}
