/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(m * n, 64)"]
block = [64]
args = ["a", "b", "y", "m", "n", "k"]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void answer(const __half* a, const __half* b, double* y, int m, int n, int k) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    double sum = 0.0;
    for (int i = k - 1; i >= 0; --i) sum += double(__half2float(a[at / n * k + i])) * double(__half2float(b[i * n + at % n]));
    y[at] = sum;
}
