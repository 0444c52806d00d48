/*---
[idea]
title = "a larger tile per warp, fragments loaded by ldmatrix"
hypothesis = """
With 16 x 16 outputs per warp each matrix instruction needs as many loads as it saves. A warp that owns \
32 x 32 outputs uses each fragment of a for four products and each of b for two; ldmatrix loads four \
8 x 8 matrices at once, sums stay in registers until they are written, and the next tile is loaded while \
this one is multiplied."""
gain = [1.2, 2.5]

[step]
phase = "tensor"
sweep = ["DEPTH", "DOWN", "ACROSS"]

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 32 * ACROSS)", "cdiv(M, 32 * DOWN)"]
block = ["32 * DOWN * ACROSS"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.DEPTH]
value = 32
choices = [16, 32, 64]
[tunables.DOWN]
value = 2
choices = [1, 2]
[tunables.ACROSS]
value = 2
choices = [1, 2]
---*/
// DOWN x ACROSS warps, each with 32 x 32 outputs.
#include "tensor_core.cuh"

constexpr int ROWS = 32 * DOWN;        // of c in a block
constexpr int COLUMNS = 32 * ACROSS;
constexpr int THREADS = 32 * DOWN * ACROSS;
constexpr int VECTOR = 8;            // f16 in 16 bytes
constexpr int A_PIECES = ROWS * DEPTH / VECTOR / THREADS;  // 16-byte pieces for each thread to stage
constexpr int B_PIECES = DEPTH * COLUMNS / VECTOR / THREADS;
constexpr int A_STRIDE = DEPTH + 8;  // padded: the eight rows of a matrix load start on different banks
constexpr int B_STRIDE = COLUMNS + 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ __align__(16) __half left[ROWS][A_STRIDE];
    __shared__ __align__(16) __half right[DEPTH][B_STRIDE];
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / ACROSS * 32;
    const int warp_column = threadIdx.x / 32 % ACROSS * 32;
    const int first_row = blockIdx.y * ROWS;
    const int first_column = blockIdx.x * COLUMNS;

    // Loads this thread's pieces of the tiles that begin at `first`; beyond the edges they are zeros,
    // which add nothing.
    uint4 left_pieces[A_PIECES];
    uint4 right_pieces[B_PIECES];
    const auto fetch = [&](int first) {
        const uint4 zeros = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < A_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            const int row = first_row + piece / (DEPTH / VECTOR);
            const int k = first + piece % (DEPTH / VECTOR) * VECTOR;
            left_pieces[i] =
                row < M && k < K ? *reinterpret_cast<const uint4*>(a + size_t(row) * K + k) : zeros;
        }
#pragma unroll
        for (int i = 0; i < B_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            const int k = first + piece / (COLUMNS / VECTOR);
            const int column = first_column + piece % (COLUMNS / VECTOR) * VECTOR;
            right_pieces[i] =
                k < K && column < N ? *reinterpret_cast<const uint4*>(b + size_t(k) * N + column) : zeros;
        }
    };

    float sum[2][4][4] = {};  // 16 rows, 8 columns, the elements of a lane
    fetch(0);
    for (int first = 0; first < K; first += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < A_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(
                &left[piece / (DEPTH / VECTOR)][piece % (DEPTH / VECTOR) * VECTOR]) = left_pieces[i];
        }
#pragma unroll
        for (int i = 0; i < B_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(
                &right[piece / (COLUMNS / VECTOR)][piece % (COLUMNS / VECTOR) * VECTOR]) = right_pieces[i];
        }
        __syncthreads();
        fetch(first + DEPTH);  // under way while this tile is multiplied

#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned rows[2][4];
            unsigned columns[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(rows[i], &left[warp_row + 16 * i + lane % 16][k + lane / 16 * 8]);
                load_matrices_transposed(columns[i],
                                         &right[k + lane % 16][warp_column + 16 * i + lane / 16 * 8]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_add(sum[i][j], rows[i], columns[j / 2][j % 2 * 2],
                                 columns[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = first_row + warp_row + 16 * i + lane / 4;
            const int column = first_column + warp_column + 8 * j + lane % 4 * 2;
            // N is even, so a pair is inside as a whole.
            if (column >= N) continue;
            if (row < M) {
                *reinterpret_cast<__half2*>(c + size_t(row) * N + column) =
                    __floats2half2_rn(sum[i][j][0], sum[i][j][1]);
            }
            if (row + 8 < M) {
                *reinterpret_cast<__half2*>(c + size_t(row + 8) * N + column) =
                    __floats2half2_rn(sum[i][j][2], sum[i][j][3]);
            }
        }
    }
}
