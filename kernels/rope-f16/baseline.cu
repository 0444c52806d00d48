/*---
[[launch]]
kernel = "rotate_halves"
grid = ["cdiv(T * H * D, 256)"]
block = [256]
args = ["x", "rotated", "T", "H"]

[[launch]]
kernel = "combine"
grid = ["cdiv(T * H * D, 256)"]
block = [256]
args = ["x", "rotated", "cosine", "sine", "y", "T", "H"]

[workspace.rotated]
dtype = "f16"
shape = ["T", "H", "D"]
---*/
// Generation 0: as model code writes it, with a copy of x whose halves have changed places and the first
// its sign, and then y = x cosine + rotated sine.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(256)
    rotate_halves(const __half* __restrict__ x, __half* __restrict__ rotated, int T, int H) {
    const size_t at = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= size_t(T) * H * 128) return;
    rotated[at] = at % 128 < 64 ? __hneg(x[at + 64]) : x[at - 64];
}

extern "C" __global__ void __launch_bounds__(256)
    combine(const __half* __restrict__ x, const __half* __restrict__ rotated,
            const float* __restrict__ cosine, const float* __restrict__ sine, __half* __restrict__ y,
            int T, int H) {
    const size_t at = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= size_t(T) * H * 128) return;
    const size_t angle = at / 128 / H * 64 + at % 64;
    y[at] = __float2half_rn(__half2float(x[at]) * cosine[angle] +
                            __half2float(rotated[at]) * sine[angle]);
}
