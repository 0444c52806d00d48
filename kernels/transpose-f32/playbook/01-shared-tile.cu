/*---
[idea]
title = "turn a square tile in shared memory"
hypothesis = """
The naive kernel writes 4 of the 32 bytes of each sector at a time. A block that reads a 32 x 32 tile \
row by row into shared memory and writes it column by column touches whole sectors both ways. One \
column of padding puts the 32 words of a column into 32 banks."""
gain = [1.5, 4.0]

[step]
phase = "memory"
sweep = ["ROWS"]

[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [32, "ROWS"]
args = ["x", "y", "M", "N"]

[tunables.ROWS]
value = 8
choices = [4, 8, 16, 32]
---*/
constexpr int TILE = 32;

extern "C" __global__ void __launch_bounds__(TILE * ROWS)
    transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ float tile[TILE][TILE + 1];
    const int first_column = blockIdx.x * TILE;
    const int first_row = blockIdx.y * TILE;

    const int column = first_column + threadIdx.x;
#pragma unroll
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        const int row = first_row + i;
        if (row < M && column < N) tile[i][threadIdx.x] = x[size_t(row) * N + column];
    }
    __syncthreads();

    const int row = first_row + threadIdx.x;
#pragma unroll
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        const int target = first_column + i;
        if (row < M && target < N) y[size_t(target) * M + row] = tile[threadIdx.x][i];
    }
}
