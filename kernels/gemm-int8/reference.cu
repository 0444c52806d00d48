/*---
[[launch]]
kernel = "reference_gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// The right answer: sums of integers below 2^53, exact in binary64.
extern "C" __global__ void reference_gemm(const signed char* a, const signed char* b, double* c, int M,
                                          int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    double sum = 0.0;
    for (int k = 0; k < K; ++k) sum += double(a[size_t(row) * K + k]) * double(b[size_t(column) * K + k]);
    c[size_t(row) * N + column] = sum;
}
