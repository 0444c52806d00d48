/*---
[[launch]]
kernel = "reference_rope"
grid = ["T", "H"]
block = [64]
args = ["x", "cosine", "sine", "y", "y_scale", "H"]

[workspace.y_scale]
dtype = "f64"
shape = ["T", "H", "D"]
---*/
// The right answer in binary64, one thread per pair. Rounding errors are proportional to the sum of
// the products' magnitudes; below the smallest normal number of f16 the spacing no longer shrinks.
#include <cuda_fp16.h>

extern "C" __global__ void reference_rope(const __half* x, const float* cosine, const float* sine,
                                          double* y, double* y_scale, int H) {
    const int i = threadIdx.x;
    const size_t token = blockIdx.x;
    const size_t first = (token * H + blockIdx.y) * 128;
    const double a = __half2float(x[first + i]);
    const double b = __half2float(x[first + i + 64]);
    const double c = cosine[token * 64 + i];
    const double s = sine[token * 64 + i];
    y[first + i] = a * c - b * s;
    y[first + i + 64] = b * c + a * s;
    y_scale[first + i] = fmax(fabs(a * c) + fabs(b * s), 0x1p-14);
    y_scale[first + i + 64] = fmax(fabs(b * c) + fabs(a * s), 0x1p-14);
}
