/*---
[[launch]]
kernel = "check_transpose"
grid = ["N"]
block = [64]
args = ["x", "y", "M", "N"]
---*/
// One block per column of x, which is a row of y.
extern "C" __global__ void check_transpose(const float* x, double* y, int M, int N) {
    for (int m = threadIdx.x; m < M; m += 64) {
        y[size_t(blockIdx.x) * M + m] = x[size_t(m) * N + blockIdx.x];
    }
}
