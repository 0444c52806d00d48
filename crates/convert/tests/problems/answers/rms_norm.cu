/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * features * width, 64)"]
block = [64]
args = ["x", "y", "batch_size", "features", "width"]
---*/
extern "C" __global__ void answer(const float* x, double* y, int batch_size, int features, int width) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * features * width) return;
    const float* column = x + at / width / features * features * width + at % width;
    double sum = 0.0;
    for (int k = features - 1; k >= 0; --k) sum += double(column[k * width]) * column[k * width];
    y[at] = x[at] / sqrt(sum / features + 1e-5);
}
