/*---
[[launch]]
kernel = "reference_layernorm"
grid = ["R"]
block = [128]
args = ["x", "gamma", "beta", "y", "y_scale", "eps", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The right answer in binary64: the mean, then the mean of the squared differences. A block takes one
// row; each thread adds a strided share, and one thread adds the shares in order.
#include <cuda_fp16.h>

constexpr int THREADS = 128;

__device__ double add_block(double value, double* share) {
    __syncthreads();
    share[threadIdx.x] = value;
    __syncthreads();
    double sum = 0.0;
    for (int t = 0; t < THREADS; ++t) sum += share[t];
    return sum;
}

extern "C" __global__ void reference_layernorm(const __half* x, const __half* gamma, const __half* beta,
                                               double* y, double* y_scale, float eps, int C) {
    __shared__ double share[THREADS];
    const size_t first = size_t(blockIdx.x) * C;

    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = threadIdx.x; c < C; c += THREADS) {
        const double element = __half2float(x[first + c]);
        sum += element;
        magnitude += fabs(element);
    }
    const double mean = add_block(sum, share) / C;
    const double size = add_block(magnitude, share) / C;
    double squares = 0.0;
    for (int c = threadIdx.x; c < C; c += THREADS) {
        const double difference = double(__half2float(x[first + c])) - mean;
        squares += difference * difference;
    }
    const double inverse = 1.0 / sqrt(add_block(squares, share) / C + double(eps));

    for (int c = threadIdx.x; c < C; c += THREADS) {
        const double element = __half2float(x[first + c]);
        const double factor = inverse * double(__half2float(gamma[c]));
        const double shift = __half2float(beta[c]);
        y[first + c] = (element - mean) * factor + shift;
        // The mean is rounded relative to the elements' magnitudes. Below the smallest normal number
        // of f16 the spacing no longer shrinks.
        y_scale[first + c] = fmax((fabs(element) + size) * fabs(factor) + fabs(shift), 0x1p-14);
    }
}
