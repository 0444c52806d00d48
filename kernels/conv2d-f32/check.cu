/*---
[[launch]]
kernel = "check_conv"
grid = ["F", "I"]
block = [64]
args = ["x", "k", "y", "y_scale", "C", "H", "W"]

[workspace.y_scale]
dtype = "f64"
shape = ["I", "F", "H", "W"]
---*/
// The second opinion: a block per output plane, to which the taps of the filters are added one at a time,
// from the last channel and tap to the first. A tap is a shifted input plane times one number.
extern "C" __global__ void check_conv(const float* x, const float* k, double* y, double* y_scale, int C,
                                      int H, int W) {
    const size_t filter = blockIdx.x;
    const size_t image = blockIdx.y;
    const size_t first = (image * gridDim.x + filter) * H * W;
    for (int at = threadIdx.x; at < H * W; at += 64) {
        y[first + at] = 0.0;
        y_scale[first + at] = 0.0;
    }
    for (int tap = 9 * C - 1; tap >= 0; --tap) {
        const double factor = k[filter * C * 9 + tap];
        const float* plane = x + (image * C + tap / 9) * H * W;
        const int down = tap % 9 / 3 - 1;
        const int right = tap % 3 - 1;
        for (int at = threadIdx.x; at < H * W; at += 64) {
            const int row = at / W + down;
            const int column = at % W + right;
            if (row < 0 || row >= H || column < 0 || column >= W) continue;
            const double product = factor * double(plane[row * W + column]);
            y[first + at] += product;
            y_scale[first + at] += fabs(product);
        }
    }
    for (int at = threadIdx.x; at < H * W; at += 64) y_scale[first + at] = fmax(y_scale[first + at], 0x1p-126);
}
