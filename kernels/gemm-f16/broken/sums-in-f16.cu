/*---
[expect]
verdict = "precision_downgrade"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the tensor cores add in f16. Faster on many cards, and a sum of 4,096 products has lost two
// of its three digits.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(32)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ __align__(128) __half left[16][24];
    __shared__ __align__(128) __half right[16][24];
    __shared__ __align__(128) __half out[16][16];
    const int first_row = blockIdx.y * 16;
    const int first_column = blockIdx.x * 16;
    const __half zero = __float2half_rn(0.0f);

    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> sum;
    wmma::fill_fragment(sum, zero);
    for (int first = 0; first < K; first += 16) {
        __syncwarp();
        for (int i = threadIdx.x; i < 256; i += 32) {
            const int line = i / 16;
            const int at = i % 16;
            left[line][at] = first_row + line < M && first + at < K
                                 ? a[size_t(first_row + line) * K + first + at]
                                 : zero;
            right[line][at] = first + line < K && first_column + at < N
                                  ? b[size_t(first + line) * N + first_column + at]
                                  : zero;
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> rows;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> columns;
        wmma::load_matrix_sync(rows, &left[0][0], 24);
        wmma::load_matrix_sync(columns, &right[0][0], 24);
        wmma::mma_sync(sum, rows, columns, sum);
    }
    wmma::store_matrix_sync(&out[0][0], sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) {
        const int row = first_row + i / 16;
        const int column = first_column + i % 16;
        if (row < M && column < N) c[size_t(row) * N + column] = out[i / 16][i % 16];
    }
}
