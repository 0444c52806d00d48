/*---
[[launch]]
kernel = "reference_transpose"
grid = ["cdiv(M * N, 256)"]
block = [256]
args = ["x", "y", "M", "N"]
---*/
// One thread per element of x.
extern "C" __global__ void reference_transpose(const float* x, double* y, int M, int N) {
    const size_t at = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= size_t(M) * N) return;
    const size_t row = at / N;
    const size_t column = at % N;
    y[column * M + row] = x[at];
}
