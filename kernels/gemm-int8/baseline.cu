/*---
[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Generation 0: square tiles of both inputs in shared memory and one thread per element of c, one
// product of bytes at a time.
constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    gemm(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int M,
         int N, int K) {
    __shared__ int left[TILE][TILE];
    __shared__ int right[TILE][TILE + 1];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int column = blockIdx.x * TILE + x;
    const int row = blockIdx.y * TILE + y;
    const int staged = blockIdx.x * TILE + y;  // the row of b that this thread stages

    int sum = 0;
    for (int first = 0; first < K; first += TILE) {
        __syncthreads();
        // Zeros beyond the edges add nothing. K is a multiple of TILE.
        left[y][x] = row < M ? a[size_t(row) * K + first + x] : 0;
        right[y][x] = staged < N ? b[size_t(staged) * K + first + x] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[x][k];
    }
    if (row < M && column < N) c[size_t(row) * N + column] = sum;
}
