/*---
[[launch]]
kernel = "reference_conv"
grid = ["cdiv(I * F * H * W, 128)"]
block = [128]
args = ["x", "k", "y", "y_scale", "I", "C", "F", "H", "W"]

[workspace.y_scale]
dtype = "f64"
shape = ["I", "F", "H", "W"]
---*/
// The right answer: all products of one output in binary64, those outside the image left out. Beside it the
// sum of the products' magnitudes, to which rounding errors are proportional; below the smallest normal
// number of f32 the spacing no longer shrinks.
extern "C" __global__ void reference_conv(const float* x, const float* k, double* y, double* y_scale, int I,
                                          int C, int F, int H, int W) {
    const size_t at = size_t(blockIdx.x) * 128 + threadIdx.x;
    if (at >= size_t(I) * F * H * W) return;
    const int w = at % W;
    const int h = at / W % H;
    const int f = at / W / H % F;
    const size_t image = at / W / H / F;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = 0; c < C; ++c) {
        const float* plane = x + (image * C + c) * H * W;
        const float* filter = k + (size_t(f) * C + c) * 9;
        for (int p = 0; p < 3; ++p) {
            for (int q = 0; q < 3; ++q) {
                const int row = h + p - 1;
                const int column = w + q - 1;
                if (row < 0 || row >= H || column < 0 || column >= W) continue;
                const double product = double(plane[row * W + column]) * double(filter[3 * p + q]);
                sum += product;
                magnitude += fabs(product);
            }
        }
    }
    y[at] = sum;
    y_scale[at] = fmax(magnitude, 0x1p-126);
}
