/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the inner dimension is taken in steps of 16, and the last eight of K = 136 are left out.
#include <cuda_fp16.h>

extern "C" __global__ void gemm(const __half* __restrict__ a, const __half* __restrict__ b,
                                __half* __restrict__ c, int M, int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0.0f;
    for (int first = 0; first + 16 <= K; first += 16) {
        for (int k = first; k < first + 16; ++k) {
            sum += __half2float(a[size_t(row) * K + k]) * __half2float(b[size_t(k) * N + column]);
        }
    }
    c[size_t(row) * N + column] = __float2half_rn(sum);
}
