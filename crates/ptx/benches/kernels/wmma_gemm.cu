// c = a b with halves in, floats out: four warps compute a 64 x 64 tile, each 32 x 32 of it with wmma.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TILE = 64;
constexpr int DEPTH = 32;
constexpr int STRIDE = DEPTH + 8;

// a is n x n by rows, b is n x n by columns.
extern "C" __global__ void __launch_bounds__(128)
    wmma_gemm(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ __align__(32) __half left[TILE * STRIDE];
    __shared__ __align__(32) __half right[TILE * STRIDE];
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;

    fragment<accumulator, 16, 16, 16, float> sums[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) fill_fragment(sums[i][j], 0.0f);
    for (int k = 0; k < n; k += DEPTH) {
        __syncthreads();
        for (int part = threadIdx.x; part < TILE * DEPTH / 8; part += 128) {
            const int row = part / (DEPTH / 8), column = part % (DEPTH / 8) * 8;
            *reinterpret_cast<uint4*>(&left[row * STRIDE + column]) =
                *reinterpret_cast<const uint4*>(&a[size_t(first_row + row) * n + k + column]);
            *reinterpret_cast<uint4*>(&right[row * STRIDE + column]) =
                *reinterpret_cast<const uint4*>(&b[size_t(first_column + row) * n + k + column]);
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> rows[2];
            fragment<matrix_b, 16, 16, 16, __half, col_major> columns[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrix_sync(rows[i], &left[(warp_row + i * 16) * STRIDE + step], STRIDE);
                load_matrix_sync(columns[i], &right[(warp_column + i * 16) * STRIDE + step], STRIDE);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) mma_sync(sums[i][j], rows[i], columns[j], sums[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float* const tile = &c[size_t(first_row + warp_row + i * 16) * n + first_column + warp_column + j * 16];
            store_matrix_sync(tile, sums[i][j], n, mem_row_major);
        }
}
