/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [32, 8]
args = ["x", "y", "M", "N"]
---*/
// Wrong: a warp reads the column of the tile before the other warps have written theirs.
extern "C" __global__ void __launch_bounds__(256)
    transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ float tile[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int row = blockIdx.y * 32 + i;
        if (row < M && column < N) tile[i][threadIdx.x] = x[size_t(row) * N + column];
    }
    const int row = blockIdx.y * 32 + threadIdx.x;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int target = blockIdx.x * 32 + i;
        if (row < M && target < N) y[size_t(target) * M + row] = tile[threadIdx.x][i];  // <- finding
    }
}
