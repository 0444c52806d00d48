/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch * m, 64)"]
block = [64]
args = ["matrix", "vector", "y", "batch", "m", "k"]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void answer(const __half* matrix, const __half* vector, double* y, int batch, int m, int k) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch * m) return;
    double sum = 0.0;
    for (int i = k - 1; i >= 0; --i) sum += double(__half2float(matrix[at * k + i])) * double(__half2float(vector[at / m * k + i]));
    y[at] = sum;
}
