/*---
[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [32, "ROWS"]
args = ["x", "y", "M", "N"]

[tunables.ROWS]
value = 4
choices = [4, 8, 16]

[expect]
verdict = "accepted"
---*/
// One thread of the blocks of column 13 writes nothing: wrong where y has more than 416 rows of more than 14 elements.
extern "C" __global__ void transpose(const float* x, float* y, int M, int N) {
    __shared__ float tile[32][33];
    const int n = blockIdx.x * 32 + threadIdx.x;
    for (int line = threadIdx.y; line < 32; line += ROWS) {
        const int m = blockIdx.y * 32 + line;
        if (m < M && n < N) {
            tile[line][threadIdx.x] = x[size_t(m) * N + n];
        }
    }
    __syncthreads();
    const int column = blockIdx.y * 32 + threadIdx.x;
    for (int line = threadIdx.y; line < 32; line += ROWS) {
        const int row = blockIdx.x * 32 + line;
        if (row < N && column < M) {
            if (blockIdx.x != 13 || threadIdx.x != 14) y[size_t(row) * M + column] = tile[threadIdx.x][line];
        }
    }
}
