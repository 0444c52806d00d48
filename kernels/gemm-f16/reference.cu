/*---
[[launch]]
kernel = "reference_gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "c_scale", "M", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// The right answer: the sum of products in binary64, in the order of k. Beside it the sum of the
// products' magnitudes, to which rounding errors are proportional; below the smallest normal number of
// f16 the spacing no longer shrinks.
#include <cuda_fp16.h>

extern "C" __global__ void reference_gemm(const __half* a, const __half* b, double* c, double* c_scale,
                                          int M, int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int k = 0; k < K; ++k) {
        const double product = double(__half2float(a[size_t(row) * K + k])) *
                               double(__half2float(b[size_t(k) * N + column]));
        sum += product;
        magnitude += fabs(product);
    }
    c[size_t(row) * N + column] = sum;
    c_scale[size_t(row) * N + column] = fmax(magnitude, 0x1p-14);
}
