/*---
[[launch]]
kernel = "multiply"
grid = ["cdiv(N, 64)", "cdiv(M, 32)"]
block = [128]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.STAGES]
value = 3
choices = [2, 3]
---*/
#include <cuda_fp16.h>

// SNIPPET async_copies
// SNIPPET matrix_units

// A block computes 32 x 64 elements of c: each of its four warps 16 rows and 32 columns.
extern "C" __global__ void multiply(const __half *a, const __half *b, __half *c, int M, int N, int K) {
    __shared__ __align__(128) __half left[STAGES][32 * 64];
    __shared__ __align__(128) __half right[STAGES][64 * 64];
    const int first_row = blockIdx.y * 32, first_column = blockIdx.x * 64;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / 2 * 16, column = warp % 2 * 32;
    float sums[4][4] = {};
    const auto load = [&](int tile, int stage) {
        const int inner = tile * 64;
        for (int i = threadIdx.x; i < 32 * 8; i += 128) {
            const int r = i / 8, k = i % 8 * 8;
            const bool exists = first_row + r < M && inner + k < K;
            copy_async(&left[stage][permuted(r, k)], exists ? a + size_t(first_row + r) * K + inner + k : a, exists);
        }
        for (int i = threadIdx.x; i < 64 * 8; i += 128) {
            const int k = i / 8, n = i % 8 * 8;
            const bool exists = inner + k < K && first_column + n < N;
            copy_async(&right[stage][permuted(k, n)], exists ? b + size_t(inner + k) * N + first_column + n : b, exists);
        }
    };
    const auto use = [&](int, int stage) {
        for (int k = 0; k < 64; k += 16) {
            unsigned rows[4];
            load_a(rows, left[stage], row, k);
            for (int j = 0; j < 4; ++j) {
                unsigned columns[2];
                load_b(columns, right[stage], k, column + 8 * j);
                multiply_add(sums[j], rows, columns);
            }
        }
    };
    pipeline<STAGES>((K + 63) / 64, load, use);
    for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 4; ++i) {
            const int r = first_row + row + lane / 4 + i / 2 * 8, n = first_column + column + 8 * j + lane % 4 * 2 + i % 2;
            if (r < M && n < N) c[size_t(r) * N + n] = __float2half_rn(sums[j][i]);
        }
    }
}
