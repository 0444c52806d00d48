/*---
[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 32)", "cdiv(M, ROWS)"]
block = [32, "ROWS"]
args = ["x", "y", "M", "N"]

[tunables.ROWS]
value = 4
choices = [2, 4, 8]
---*/
// One thread copies one element.
extern "C" __global__ void transpose(const float* x, float* y, int M, int N) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const int m = blockIdx.y * ROWS + threadIdx.y;
    if (m < M && n < N) {
        /*@out*/ y[size_t(n) * M + m] = x[size_t(m) * N + n];
    }
}
