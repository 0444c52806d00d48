/*---
[idea]
title = "multiply 16 x 16 fragments on the tensor cores"
hypothesis = """
A warp-wide matrix instruction does 4,096 multiply-adds at once. With the tiles staged in shared memory \
as they lie in memory, the WMMA interface loads fragments and needs no knowledge of their layout."""
gain = [2.0, 6.0]

[step]
phase = "tensor"
sweep = ["WARPS"]

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16 * WARPS)", "cdiv(M, 16)"]
block = ["32 * WARPS"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.WARPS]
value = 2
choices = [2, 4]
---*/
// A block computes 16 rows and 16 columns per warp. Sums leave through shared memory, where each
// element knows its row and column.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int DEPTH = 32;           // columns of a and rows of b staged at once
constexpr int WIDTH = 16 * WARPS;   // columns of c in a block
constexpr int VECTOR = 8;           // f16 in 16 bytes
constexpr int A_STRIDE = DEPTH + 8; // padded: rows start on different banks
constexpr int B_STRIDE = WIDTH + 8;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ __align__(128) __half left[16][A_STRIDE];
    __shared__ __align__(128) __half right[DEPTH][B_STRIDE];
    __shared__ __align__(128) float out[16][WIDTH + 4];
    const int warp = threadIdx.x / 32;
    const int first_row = blockIdx.y * 16;
    const int first_column = blockIdx.x * WIDTH;
    const uint4 zeros = make_uint4(0, 0, 0, 0);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int first = 0; first < K; first += DEPTH) {
        __syncthreads();
        for (int i = threadIdx.x; i < 16 * DEPTH / VECTOR; i += 32 * WARPS) {
            const int row = first_row + i / (DEPTH / VECTOR);
            const int k = first + i % (DEPTH / VECTOR) * VECTOR;
            *reinterpret_cast<uint4*>(&left[i / (DEPTH / VECTOR)][k - first]) =
                row < M && k < K ? *reinterpret_cast<const uint4*>(a + size_t(row) * K + k) : zeros;
        }
        for (int i = threadIdx.x; i < DEPTH * WIDTH / VECTOR; i += 32 * WARPS) {
            const int k = first + i / (WIDTH / VECTOR);
            const int column = i % (WIDTH / VECTOR) * VECTOR;
            *reinterpret_cast<uint4*>(&right[k - first][column]) =
                k < K && first_column + column < N
                    ? *reinterpret_cast<const uint4*>(b + size_t(k) * N + first_column + column)
                    : zeros;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> rows;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> columns;
            wmma::load_matrix_sync(rows, &left[0][k], A_STRIDE);
            wmma::load_matrix_sync(columns, &right[k][16 * warp], B_STRIDE);
            wmma::mma_sync(sum, rows, columns, sum);
        }
    }

    wmma::store_matrix_sync(&out[0][16 * warp], sum, WIDTH + 4, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < 16 * 16; i += 32) {
        const int row = first_row + i / 16;
        const int column = first_column + 16 * warp + i % 16;
        if (row < M && column < N) {
            c[size_t(row) * N + column] = __float2half_rn(out[i / 16][16 * warp + i % 16]);
        }
    }
}
