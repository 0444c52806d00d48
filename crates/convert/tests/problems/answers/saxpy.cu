/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(n, 64)"]
block = [64]
args = ["x", "y", "out", "n"]
---*/
extern "C" __global__ void answer(const float* x, const float* y, double* out, int n) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    out[at] = 2.5 * x[at] + y[at];
}
