/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "rope"
grid = ["cdiv(T * H * P, 256)"]
block = [256]
args = ["x", "cosine", "sine", "y", "T", "H"]
---*/
// Wrong: channel 2 i is turned with 2 i + 1, as other models lay their pairs out.
#include <cuda_fp16.h>

extern "C" __global__ void rope(const __half2* __restrict__ x, const float* __restrict__ cosine,
                                const float* __restrict__ sine, __half2* __restrict__ y, int T, int H) {
    const size_t pair = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (pair >= size_t(T) * H * 64) return;
    const size_t angle = pair / 64 / H * 64 + pair % 64;
    const float2 p = __half22float2(x[pair]);
    const float c = cosine[angle];
    const float s = sine[angle];
    y[pair] = __floats2half2_rn(p.x * c - p.y * s, p.y * c + p.x * s);
}
