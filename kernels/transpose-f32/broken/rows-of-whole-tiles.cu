/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "transpose"
grid = ["max(1, N / 32)", "cdiv(M, 32)"]
block = [32, 8]
args = ["x", "y", "M", "N"]
---*/
// Wrong: the grid rounds the number of tiles down, so that the columns behind the last whole tile
// are never written.
extern "C" __global__ void __launch_bounds__(256)
    transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ float tile[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int row = blockIdx.y * 32 + i;
        if (row < M && column < N) tile[i][threadIdx.x] = x[size_t(row) * N + column];
    }
    __syncthreads();
    const int row = blockIdx.y * 32 + threadIdx.x;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int target = blockIdx.x * 32 + i;
        if (row < M && target < N) y[size_t(target) * M + row] = tile[threadIdx.x][i];
    }
}
