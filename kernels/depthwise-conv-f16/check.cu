/*---
[[launch]]
kernel = "check_conv"
grid = ["I * C"]
block = [1]
args = ["x", "k", "y", "y_scale", "C", "H", "W"]

[workspace.y_scale]
dtype = "f64"
shape = ["I", "C", "H", "W"]
---*/
// The second opinion: one thread per plane, which adds each element of x to the up to nine elements of y
// that it belongs to, from the last to the first.
#include <cuda_fp16.h>

extern "C" __global__ void check_conv(const __half* x, const __half* k, double* y, double* y_scale, int C,
                                      int H, int W) {
    const size_t first = size_t(blockIdx.x) * H * W;
    for (int at = 0; at < H * W; ++at) {
        y[first + at] = 0.0;
        y_scale[first + at] = 0.0;
    }
    for (int h = H - 1; h >= 0; --h) {
        for (int w = W - 1; w >= 0; --w) {
            const double element = __half2float(x[first + h * W + w]);
            for (int p = 0; p < 3; ++p) {
                for (int q = 0; q < 3; ++q) {
                    const int row = h - p + 1;
                    const int column = w - q + 1;
                    if (row < 0 || row >= H || column < 0 || column >= W) continue;
                    const double product =
                        element * double(__half2float(k[blockIdx.x % C * 9 + p * 3 + q]));
                    y[first + row * W + column] += product;
                    y_scale[first + row * W + column] += fabs(product);
                }
            }
        }
    }
    for (int at = 0; at < H * W; ++at) y_scale[first + at] = fmax(y_scale[first + at], 0x1p-14);
}
