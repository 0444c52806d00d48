/*---
[[launch]]
kernel = "reference_conv"
grid = ["cdiv(I * C * H * W, 128)"]
block = [128]
args = ["x", "k", "y", "y_scale", "I", "C", "H", "W"]

[workspace.y_scale]
dtype = "f64"
shape = ["I", "C", "H", "W"]
---*/
// The right answer: nine products in binary64, those outside the image left out. Beside it the sum of
// the products' magnitudes, to which rounding errors are proportional; below the smallest normal number
// of f16 the spacing no longer shrinks.
#include <cuda_fp16.h>

extern "C" __global__ void reference_conv(const __half* x, const __half* k, double* y, double* y_scale,
                                          int I, int C, int H, int W) {
    const size_t at = size_t(blockIdx.x) * 128 + threadIdx.x;
    if (at >= size_t(I) * C * H * W) return;
    const int w = at % W;
    const int h = at / W % H;
    const size_t plane = at / W / H;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int p = -1; p <= 1; ++p) {
        for (int q = -1; q <= 1; ++q) {
            if (h + p < 0 || h + p >= H || w + q < 0 || w + q >= W) continue;
            const double product = double(__half2float(x[(plane * H + h + p) * W + w + q])) *
                                   double(__half2float(k[plane % C * 9 + (p + 1) * 3 + q + 1]));
            sum += product;
            magnitude += fabs(product);
        }
    }
    y[at] = sum;
    y_scale[at] = fmax(magnitude, 0x1p-14);
}
