/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)", 2]
block = [16, 16]
args = ["a", "b", "c", "partial", "M", "N", "K"]

[workspace.partial]
dtype = "f32"
shape = ["M", "N"]
---*/
// Wrong: the block that adds both halves of the inner dimension does not wait for the block that leaves the other half
// in device memory. Blocks meet at a barrier of the grid, in a cooperative launch, or in the next launch.
#include <cuda_fp16.h>

extern "C" __global__ void gemm(const __half* __restrict__ a, const __half* __restrict__ b,
                                __half* __restrict__ c, float* partial, int M, int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    const bool adds = blockIdx.z == 1;
    float sum = 0.0f;
    for (int k = adds ? K / 2 : 0; k < (adds ? K : K / 2); ++k) {
        sum += __half2float(a[size_t(row) * K + k]) * __half2float(b[size_t(k) * N + column]);
    }
    const size_t at = size_t(row) * N + column;
    if (adds) {
        c[at] = __float2half_rn(sum + partial[at]);  // <- finding
    } else {
        partial[at] = sum;
    }
}
