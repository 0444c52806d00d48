/*---
[[launch]]
kernel = "reference_gemm"
grid = ["cdiv(N, 4)", "cdiv(M, 4)"]
block = [32, 4]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// The right answer: sums of integers below 2^53, exact in binary64 and so the same in any order. A warp
// takes four neighbouring columns of a row: each lane adds a strided share, and exchanges join the shares.
constexpr int COLUMNS = 4;

extern "C" __global__ void reference_gemm(const signed char* a, const signed char* b, double* c, int M,
                                          int N, int K) {
    const int first = blockIdx.x * COLUMNS;
    const int row = blockIdx.y * 4 + threadIdx.y;
    if (row >= M) return;
    double sum[COLUMNS] = {};
    for (int k = threadIdx.x; k < K; k += 32) {
        const double left = a[size_t(row) * K + k];
        for (int i = 0; i < COLUMNS; ++i) {
            const int column = min(first + i, N - 1);
            sum[i] += left * double(b[size_t(column) * K + k]);
        }
    }
    for (int i = 0; i < COLUMNS; ++i) {
        for (int step = 16; step > 0; step /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
        if (threadIdx.x == 0 && first + i < N) c[size_t(row) * N + first + i] = sum[i];
    }
}
