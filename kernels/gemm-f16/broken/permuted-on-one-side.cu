/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the pieces of a change places when they are stored, so that no two rows of a matrix load share banks, and not
// when they are loaded.
#include "tensor_core.cuh"

extern "C" __global__ void __launch_bounds__(32)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    __shared__ uint4 left[16][2];
    __shared__ uint4 right[16][2];
    const int lane = threadIdx.x;
    const int first_row = blockIdx.y * 16;
    const int first_column = blockIdx.x * 16;
    const int line = lane / 2;
    const int piece = lane % 2;
    const uint4 zeros = make_uint4(0, 0, 0, 0);
    float sum[2][4] = {};
    for (int first = 0; first < K; first += 16) {
        __syncwarp();
        const int k = first + piece * 8;
        const int column = first_column + piece * 8;
        left[line][piece ^ line / 4 % 2] =
            first_row + line < M && k < K
                ? *reinterpret_cast<const uint4*>(a + size_t(first_row + line) * K + k)
                : zeros;
        right[line][piece] = first + line < K && column < N
                                 ? *reinterpret_cast<const uint4*>(b + size_t(first + line) * N + column)
                                 : zeros;
        __syncwarp();
        unsigned rows[4];
        unsigned columns[4];
        load_matrices(rows, &left[lane % 16][lane / 16]);
        load_matrices_transposed(columns, &right[lane % 16][lane / 16]);
        multiply_add(sum[0], rows, columns[0], columns[1]);
        multiply_add(sum[1], rows, columns[2], columns[3]);
    }
    for (int j = 0; j < 2; ++j) {
        for (int i = 0; i < 4; ++i) {
            const int row = first_row + lane / 4 + i / 2 * 8;
            const int column = first_column + 8 * j + lane % 4 * 2 + i % 2;
            if (row < M && column < N) c[size_t(row) * N + column] = __float2half_rn(sum[j][i]);
        }
    }
}
