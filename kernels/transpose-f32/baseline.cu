/*---
[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 32)", "cdiv(M, 8)"]
block = [32, 8]
args = ["x", "y", "M", "N"]
---*/
// Generation 0: one thread per element. A warp reads 32 neighbouring elements of x and writes them
// M elements apart, so that every store touches a sector of its own.
extern "C" __global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 8 + threadIdx.y;
    if (row < M && column < N) y[size_t(column) * M + row] = x[size_t(row) * N + column];
}
