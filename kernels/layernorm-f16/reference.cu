/*---
[[launch]]
kernel = "reference_layernorm"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["x", "gamma", "beta", "y", "y_scale", "eps", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The right answer in binary64: the mean, then the mean of the squared differences. A warp takes one
// row: each lane adds a strided share, and exchanges join the shares.
#include <cuda_fp16.h>

__device__ double add_warp(double value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

extern "C" __global__ void reference_layernorm(const __half* x, const __half* gamma, const __half* beta,
                                               double* y, double* y_scale, float eps, int R, int C) {
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= R) return;
    const size_t first = size_t(row) * C;

    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = threadIdx.x; c < C; c += 32) {
        const double element = __half2float(x[first + c]);
        sum += element;
        magnitude += fabs(element);
    }
    const double mean = add_warp(sum) / C;
    const double size = add_warp(magnitude) / C;
    double squares = 0.0;
    for (int c = threadIdx.x; c < C; c += 32) {
        const double difference = double(__half2float(x[first + c])) - mean;
        squares += difference * difference;
    }
    const double inverse = 1.0 / sqrt(add_warp(squares) / C + double(eps));

    for (int c = threadIdx.x; c < C; c += 32) {
        const double element = __half2float(x[first + c]);
        const double factor = inverse * double(__half2float(gamma[c]));
        const double shift = __half2float(beta[c]);
        y[first + c] = (element - mean) * factor + shift;
        // The mean is rounded relative to the elements' magnitudes. Below the smallest normal number
        // of f16 the spacing no longer shrinks.
        y_scale[first + c] = fmax((fabs(element) + size) * fabs(factor) + fabs(shift), 0x1p-14);
    }
}
