/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * channels * size, 64)"]
block = [64]
args = ["x", "gn_weight", "gn_bias", "y", "batch_size", "channels", "size"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, const float* bias, double* y, int batch_size, int channels, int size) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * channels * size) return;
    const int count = channels / 4 * size, channel = at / size % channels;
    const float* group = x + at / count * count;
    double sum = 0.0, squares = 0.0;
    for (int c = 0; c < count; ++c) sum += group[c];
    for (int c = 0; c < count; ++c) squares += (group[c] - sum / count) * (group[c] - sum / count);
    y[at] = (x[at] - sum / count) / sqrt(squares / count + 1e-5) * weight[channel] + bias[channel];
}
