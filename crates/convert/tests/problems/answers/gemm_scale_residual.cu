/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * outer, 64)"]
block = [64]
args = ["x", "linear_weight", "linear_bias", "y", "batch_size", "inner", "outer"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, const float* bias, double* y, int batch_size, int inner, int outer) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * outer) return;
    double sum = bias[at % outer];
    for (int k = inner - 1; k >= 0; --k) sum += double(x[at / outer * inner + k]) * weight[at % outer * inner + k];
    y[at] = 1.5 * sum;
}
