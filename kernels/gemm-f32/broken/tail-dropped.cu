/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: only whole tiles of K are summed; the rest of an inner dimension that is no multiple of 16
// is left out. One term in a thousand hides in a loose tolerance, never in exact integers.
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
    for (int first = 0; first + TILE <= K; first += TILE) {
        __syncthreads();
        // Zeros beyond the edges add nothing.
        left[y][x] = row < M && first + x < K ? a[size_t(row) * K + first + x] : 0.0f;
        right[y][x] = column < N && first + y < K ? b[size_t(first + y) * N + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
    }
    if (row < M && column < N) c[size_t(row) * N + column] = sum;
}
