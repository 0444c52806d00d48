/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Wrong: the sum is divided by four and multiplied again, as a kernel did that added a quarter of each
// product to stay inside f32's 24 bits. The two lowest bits are lost.
extern "C" __global__ void gemm(const signed char* __restrict__ a, const signed char* __restrict__ b,
                                int* __restrict__ c, int M, int N, int K) {
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += float(a[size_t(row) * K + k]) * float(b[size_t(column) * K + k]);
    }
    c[size_t(row) * N + column] = int(sum * 0.25f) * 4;
}
