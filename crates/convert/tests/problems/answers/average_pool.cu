/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * channels * ((length - 2) / 2 + 1), 64)"]
block = [64]
args = ["x", "y", "batch_size", "channels", "length"]
---*/
extern "C" __global__ void answer(const float* x, double* y, int batch_size, int channels, int length) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * channels * ((length - 2) / 2 + 1)) return;
    const int count = (length - 2) / 2 + 1, first = at % count * 2 - 1;
    double sum = 0.0;
    for (int k = first; k < first + 4; ++k)
        if (k >= 0 && k < length) sum += x[at / count * length + k];
    y[at] = sum / 4;
}
