/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 32)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the tiles are read while their asynchronous copies may still be under way; a barrier alone
// does not wait for them.
#include "tensor_core.cuh"

extern "C" __global__ void __launch_bounds__(32)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ __align__(16) __half left[16][24];
    __shared__ __align__(16) __half right[16][40];
    const int lane = threadIdx.x;
    const int first_row = blockIdx.y * 16;
    const int first_column = blockIdx.x * 32;
    float sum[4][4] = {};
    for (int first = 0; first < K; first += 16) {
        __syncthreads();
        const int row = first_row + lane / 2;
        const int k = first + lane % 2 * 8;
        const bool in_a = row < M && k < K;
        copy_async(&left[lane / 2][lane % 2 * 8], in_a ? a + size_t(row) * K + k : a, in_a);
        for (int i = lane; i < 64; i += 32) {
            const int line = first + i / 4;
            const int column = first_column + i % 4 * 8;
            const bool in_b = line < K && column < N;
            copy_async(&right[i / 4][i % 4 * 8], in_b ? b + size_t(line) * N + column : b, in_b);
        }
        commit_copies();
        __syncthreads();
        unsigned rows[4];
        load_matrices(rows, &left[lane % 16][lane / 16 * 8]);  // <- finding
        for (int j = 0; j < 4; j += 2) {
            unsigned columns[4];
            load_matrices_transposed(columns, &right[lane % 16][8 * j + lane / 16 * 8]);
            multiply_add(sum[j], rows, columns[0], columns[1]);
            multiply_add(sum[j + 1], rows, columns[2], columns[3]);
        }
    }
    for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 4; ++i) {
            const int row = first_row + lane / 4 + i / 2 * 8;
            const int column = first_column + 8 * j + lane % 4 * 2 + i % 2;
            if (row < M && column < N) c[size_t(row) * N + column] = __float2half_rn(sum[j][i]);
        }
    }
}
