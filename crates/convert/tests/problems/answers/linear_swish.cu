/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * out_features, 64)"]
block = [64]
args = ["x", "matmul_weight", "matmul_bias", "y", "batch_size", "in_features", "out_features"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, const float* bias, double* y, int batch_size, int in_features, int out_features) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * out_features) return;
    double sum = bias[at % out_features];
    for (int k = in_features - 1; k >= 0; --k) sum += double(x[at / out_features * in_features + k]) * weight[at % out_features * in_features + k];
    y[at] = 2.0 * sum / (1.0 + exp(-sum));
}
