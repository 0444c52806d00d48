/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * channels * ((size - 1) / 2) * ((size - 1) / 2), 64)"]
block = [64]
args = ["x", "conv_weight", "y", "batch_size", "channels", "size"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, double* y, int batch_size, int channels, int size) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * channels * ((size - 1) / 2) * ((size - 1) / 2)) return;
    const int out = (size - 3) / 2 + 1;
    const int column = at % out, row = at / out % out, plane = at / out / out;
    double sum = 0.0;
    for (int tap = 0; tap < 9; ++tap)
        sum += double(x[(plane * size + 2 * row + tap / 3) * size + 2 * column + tap % 3]) * weight[plane % channels * 9 + tap];
    y[at] = sum;
}
