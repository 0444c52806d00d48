/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch * channels * (size - kernel + 1) * (size - kernel + 1), 64)"]
block = [64]
args = ["image", "weight", "y", "batch", "channels", "size", "kernel"]
---*/
extern "C" __global__ void answer(const float* image, const float* weight, double* y, int batch, int channels, int size, int kernel) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch * channels * (size - kernel + 1) * (size - kernel + 1)) return;
    const int width = size - kernel + 1, column = at % width, row = at / width % width;
    const int channel = at / width / width % channels, item = at / width / width / channels;
    double sum = 0.0;
    for (int c = channels - 1; c >= 0; --c)
        for (int h = 0; h < kernel; ++h)
            for (int w = 0; w < kernel; ++w)
                sum += double(image[((item * channels + c) * size + row + h) * size + column + w]) *
                       weight[((channel * channels + c) * kernel + h) * kernel + w];
    y[at] = sum;
}
