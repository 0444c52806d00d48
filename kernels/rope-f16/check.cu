/*---
[[launch]]
kernel = "check_rope"
grid = ["cdiv(T * H * D, 128)"]
block = [128]
args = ["x", "cosine", "sine", "y", "y_scale", "T", "H"]

[workspace.y_scale]
dtype = "f64"
shape = ["T", "H", "D"]
---*/
// The second opinion: one thread per element of y, which looks its partner up and adds with fused
// operations in the other order.
#include <cuda_fp16.h>

extern "C" __global__ void check_rope(const __half* x, const float* cosine, const float* sine, double* y,
                                      double* y_scale, int T, int H) {
    const size_t at = size_t(blockIdx.x) * 128 + threadIdx.x;
    if (at >= size_t(T) * H * 128) return;
    const int channel = at % 128;
    const size_t token = at / 128 / H;
    const size_t angle = token * 64 + channel % 64;
    const bool low = channel < 64;
    const double own = __half2float(x[at]);
    const double partner = __half2float(x[low ? at + 64 : at - 64]);
    const double turned = (low ? -partner : partner) * double(sine[angle]);
    y[at] = fma(own, double(cosine[angle]), turned);
    y_scale[at] = fmax(fabs(own * double(cosine[angle])) + fabs(turned), 0x1p-14);
}
