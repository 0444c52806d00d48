/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 8)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the second half of the instruction's inner dimension gets the bytes of the first half of b.
__device__ unsigned word(const signed char* matrix, int row, int rows, int k, int K) {
    return row < rows && k < K ? *reinterpret_cast<const unsigned*>(matrix + size_t(row) * K + k) : 0u;
}

extern "C" __global__ void __launch_bounds__(32)
    gemm(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int M,
         int N, int K) {
    const int lane = threadIdx.x;
    const int row = blockIdx.y * 16 + lane / 4;
    const int column = blockIdx.x * 8 + lane / 4;
    int sum[4] = {};
    for (int first = 0; first < K; first += 32) {
        const int k = first + lane % 4 * 4;
        const unsigned b0 = word(b, column, N, k, K);
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
            : "r"(word(a, row, M, k, K)), "r"(word(a, row + 8, M, k, K)),
              "r"(word(a, row, M, k + 16, K)), "r"(word(a, row + 8, M, k + 16, K)), "r"(b0), "r"(b0));
    }
    for (int e = 0; e < 4; ++e) {
        const int to_row = row + e / 2 * 8;
        const int to_column = blockIdx.x * 8 + lane % 4 * 2 + e % 2;
        if (to_row < M && to_column < N) c[size_t(to_row) * N + to_column] = sum[e];
    }
}
