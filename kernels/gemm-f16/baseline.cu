/*---
[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Generation 0: square tiles of both inputs in shared memory and one thread per element of c, without
// tensor cores.
#include <cuda_fp16.h>

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int column = blockIdx.x * TILE + x;
    const int row = blockIdx.y * TILE + y;

    float sum = 0.0f;
    for (int first = 0; first < K; first += TILE) {
        __syncthreads();
        // Zeros beyond the edges add nothing.
        left[y][x] = row < M && first + x < K ? __half2float(a[size_t(row) * K + first + x]) : 0.0f;
        right[y][x] =
            column < N && first + y < K ? __half2float(b[size_t(first + y) * N + column]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
    }
    if (row < M && column < N) c[size_t(row) * N + column] = __float2half_rn(sum);
}
