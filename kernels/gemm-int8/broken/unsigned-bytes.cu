/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the packed bytes are multiplied as unsigned ones. Right as long as nothing is negative.
extern "C" __global__ void gemm(const unsigned* __restrict__ a, const unsigned* __restrict__ b,
                                int* __restrict__ c, int M, int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    unsigned sum = 0;
    for (int k = 0; k < K / 4; ++k) {
        sum = __dp4a(a[size_t(row) * (K / 4) + k], b[size_t(column) * (K / 4) + k], sum);
    }
    c[size_t(row) * N + column] = int(sum);
}
