/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * channels * size * size, 64)"]
block = [64]
args = ["x", "y", "batch_size", "channels", "size"]
---*/
extern "C" __global__ void answer(const float* x, double* y, int batch_size, int channels, int size) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * channels * size * size) return;
    const int count = size * size;
    const float* plane = x + at / count * count;
    double sum = 0.0, squares = 0.0;
    for (int k = 0; k < count; ++k) sum += plane[k];
    for (int k = 0; k < count; ++k) squares += (plane[k] - sum / count) * (plane[k] - sum / count);
    y[at] = (x[at] - sum / count) / sqrt(squares / count + 1e-5);
}
