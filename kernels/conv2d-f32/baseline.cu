/*---
[[launch]]
kernel = "conv"
grid = ["cdiv(I * F * H * W, 256)"]
block = [256]
args = ["x", "k", "y", "I", "C", "F", "H", "W"]
---*/
// Generation 0: one thread per element of y, two loads for every product, with the bounds asked for each.
// The sum of a channel is added to the others as one number: a thousand products in a row lose too much.
extern "C" __global__ void __launch_bounds__(256)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y, int I, int C, int F,
         int H, int W) {
    const size_t at = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= size_t(I) * F * H * W) return;
    const int w = at % W;
    const int h = at / W % H;
    const int f = at / W / H % F;
    const size_t image = at / W / H / F;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        float of_channel = 0.0f;
        const float* plane = x + (image * C + c) * H * W;
        const float* filter = k + (size_t(f) * C + c) * 9;
        for (int p = 0; p < 3; ++p) {
            for (int q = 0; q < 3; ++q) {
                const int row = h + p - 1;
                const int column = w + q - 1;
                if (row < 0 || row >= H || column < 0 || column >= W) continue;
                of_channel += plane[row * W + column] * filter[3 * p + q];
            }
        }
        sum += of_channel;
    }
    y[at] = sum;
}
