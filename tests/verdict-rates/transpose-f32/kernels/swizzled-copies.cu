/*---
[[launch]]
kernel = "k"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [32, 8]
args = ["x", "y", "M", "N"]
---*/
#include <cuda_pipeline.h>
extern "C" __global__ void k(const float* x, float* y, int M, int N) {
    __shared__ float tile[32][32];
    const int n = blockIdx.x * 32 + threadIdx.x;
    for (int line = threadIdx.y; line < 32; line += 8) {
        const int m = blockIdx.y * 32 + line;
        if (m < M && n < N) __pipeline_memcpy_async(&tile[line][threadIdx.x ^ line], x + size_t(m) * N + n, 4);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const int column = blockIdx.y * 32 + threadIdx.x;
    for (int line = threadIdx.y; line < 32; line += 8) {
        const int row = blockIdx.x * 32 + line;
        if (row < N && column < M) /*@out*/ y[size_t(row) * M + column] = tile[threadIdx.x][line ^ threadIdx.x];
    }
}
