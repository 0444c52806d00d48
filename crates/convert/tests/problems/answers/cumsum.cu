/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * length, 64)"]
block = [64]
args = ["x", "y", "batch_size", "length"]
---*/
extern "C" __global__ void answer(const float* x, double* y, int batch_size, int length) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * length) return;
    double sum = 0.0;
    for (int c = at / length * length; c <= at; ++c) sum += x[c];
    y[at] = sum;
}
