/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: nothing keeps a fast warp from overwriting the tiles that a slow one still reads.
constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N,
         int K) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int column = blockIdx.x * TILE + x;
    const int row = blockIdx.y * TILE + y;

    float sum = 0.0f;
    for (int first = 0; first < K; first += TILE) {
        // Zeros beyond the edges add nothing.
        left[y][x] = row < M && first + x < K ? a[size_t(row) * K + first + x] : 0.0f;  // <- finding
        right[y][x] = column < N && first + y < K ? b[size_t(first + y) * N + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
    }
    if (row < M && column < N) c[size_t(row) * N + column] = sum;
}
