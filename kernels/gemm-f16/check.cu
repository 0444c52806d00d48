/*---
[[launch]]
kernel = "check_gemm"
grid = ["N", "M"]
block = [32]
args = ["a", "b", "c", "c_scale", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// The second opinion: a warp per element of c. Each lane sums every 32nd product, and the lanes' sums
// are added in a tree.
#include <cuda_fp16.h>

extern "C" __global__ void check_gemm(const __half* a, const __half* b, double* c, double* c_scale,
                                      int N, int K) {
    const size_t column = blockIdx.x;
    const size_t row = blockIdx.y;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int k = threadIdx.x; k < K; k += 32) {
        const double left = __half2float(a[row * K + k]);
        const double right = __half2float(b[size_t(k) * N + column]);
        sum = fma(left, right, sum);
        magnitude = fma(fabs(left), fabs(right), magnitude);
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
        magnitude += __shfl_xor_sync(0xffffffffu, magnitude, step);
    }
    if (threadIdx.x == 0) {
        c[row * N + column] = sum;
        c_scale[row * N + column] = fmax(magnitude, 0x1p-14);
    }
}
