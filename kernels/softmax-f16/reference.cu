/*---
[[launch]]
kernel = "reference_softmax"
grid = ["R"]
block = [256]
args = ["x", "y", "y_scale", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The right answer in binary64: the row's maximum, its mass, the quotients. Every thread of a block takes
// a strided share of the row, and each of them joins the shares in order.
#include <cuda_fp16.h>

constexpr int THREADS = 256;

extern "C" __global__ void reference_softmax(const __half* x, double* y, double* y_scale, int C) {
    __shared__ double share[THREADS];
    const size_t first = size_t(blockIdx.x) * C;
    const int thread = threadIdx.x;

    double largest = -INFINITY;
    for (int c = thread; c < C; c += THREADS) largest = fmax(largest, double(__half2float(x[first + c])));
    share[thread] = largest;
    __syncthreads();
    for (int t = 0; t < THREADS; ++t) largest = fmax(largest, share[t]);
    __syncthreads();

    double mass = 0.0;
    for (int c = thread; c < C; c += THREADS) {
        const double e = exp(double(__half2float(x[first + c])) - largest);
        y[first + c] = e;
        mass += e;
    }
    share[thread] = mass;
    __syncthreads();
    mass = 0.0;
    for (int t = 0; t < THREADS; ++t) mass += share[t];

    for (int c = thread; c < C; c += THREADS) {
        const double quotient = y[first + c] / mass;
        y[first + c] = quotient;
        // The rounding of x - largest grows with the difference and becomes a relative error of the
        // exponential. Below the smallest normal number of f32 the spacing is that number's.
        const double distance = fabs(double(__half2float(x[first + c])) - largest);
        y_scale[first + c] = fmax(quotient * (1.0 + distance), 0x1p-126);
    }
}
