/*---
[idea]
title = "a square of outputs per thread, held in registers"
hypothesis = """
With one output per thread every multiply-add needs two shared loads, so the load path is the limit. \
A thread that owns SIDE x SIDE outputs loads 2 SIDE values for SIDE^2 multiply-adds, and its sums are \
independent, which hides their latency. The next tile is loaded while this one is multiplied, and few \
threads per block keep enough blocks for a small product."""
gain = [1.3, 3.0]

[step]
phase = "reuse"
sweep = ["SIDE", "THREADS"]

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, THREADS * SIDE)", "cdiv(M, THREADS * SIDE)"]
block = ["THREADS * THREADS"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.SIDE]
value = 4
choices = [2, 4]
[tunables.THREADS]
value = 8
choices = [8, 16]
---*/
constexpr int TILE = THREADS * SIDE;  // rows and columns of c in a block
constexpr int DEPTH = 16;             // columns of a and rows of b staged at once
constexpr int BLOCK = THREADS * THREADS;
constexpr int PARTS = TILE * DEPTH / BLOCK;  // elements of a tile for each thread to stage

extern "C" __global__ void __launch_bounds__(BLOCK)
    gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N,
         int K) {
    // `left` is transposed, so that both operands of a step are rows; one column of padding spreads
    // the transposing stores over the banks.
    __shared__ float left[DEPTH][TILE + 1];
    __shared__ float right[DEPTH][TILE];
    const int x = threadIdx.x % THREADS;
    const int y = threadIdx.x / THREADS;
    const int first_column = blockIdx.x * TILE;
    const int first_row = blockIdx.y * TILE;

    // Loads this thread's elements of the tiles that begin at `first`; beyond the edges they are
    // zeros, which add nothing.
    float left_parts[PARTS];
    float right_parts[PARTS];
    const auto fetch = [&](int first) {
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            const int at = i * BLOCK + threadIdx.x;
            const int row = first_row + at / DEPTH;
            const int column = first_column + at % TILE;
            const int across = first + at % DEPTH;
            const int down = first + at / TILE;
            left_parts[i] = row < M && across < K ? a[size_t(row) * K + across] : 0.0f;
            right_parts[i] = down < K && column < N ? b[size_t(down) * N + column] : 0.0f;
        }
    };

    // Element (i, j) is row y + i THREADS, column x + j THREADS of the block's tile: neighbouring
    // threads read neighbouring words.
    float sum[SIDE][SIDE] = {};
    fetch(0);
    for (int first = 0; first < K; first += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            const int at = i * BLOCK + threadIdx.x;
            left[at % DEPTH][at / DEPTH] = left_parts[i];
            right[at / TILE][at % TILE] = right_parts[i];
        }
        __syncthreads();
        fetch(first + DEPTH);  // under way while this tile is multiplied

#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float l[SIDE];
            float r[SIDE];
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
                l[i] = left[k][y + i * THREADS];
                r[i] = right[k][x + i * THREADS];
            }
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
#pragma unroll
                for (int j = 0; j < SIDE; ++j) sum[i][j] += l[i] * r[j];
            }
        }
    }

#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
#pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            const int row = first_row + y + i * THREADS;
            const int column = first_column + x + j * THREADS;
            if (row < M && column < N) c[size_t(row) * N + column] = sum[i][j];
        }
    }
}
