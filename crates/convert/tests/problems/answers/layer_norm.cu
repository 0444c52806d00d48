/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * features * dim, 64)"]
block = [64]
args = ["x", "ln_weight", "ln_bias", "y", "batch_size", "features", "dim"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, const float* bias, double* y, int batch_size, int features, int dim) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * features * dim) return;
    const int count = features * dim;
    const float* row = x + at / count * count;
    double sum = 0.0, squares = 0.0;
    for (int c = 0; c < count; ++c) sum += row[c];
    const double mean = sum / count;
    for (int c = 0; c < count; ++c) squares += (row[c] - mean) * (row[c] - mean);
    y[at] = (x[at] - mean) / sqrt(squares / count + 1e-5) * weight[at % count] + bias[at % count];
}
