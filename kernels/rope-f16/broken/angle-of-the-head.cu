/*---
[expect]
verdict = "out_of_bounds"

[[launch]]
kernel = "rope"
grid = ["cdiv(T * H * P, 256)"]
block = [256]
args = ["x", "cosine", "sine", "y", "T", "H"]
---*/
// Wrong: the row of angles is that of (token, head), not of the token. With one head it is right.
#include <cuda_fp16.h>

extern "C" __global__ void rope(const __half* __restrict__ x, const float* __restrict__ cosine,
                                const float* __restrict__ sine, __half* __restrict__ y, int T, int H) {
    const size_t pair = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (pair >= size_t(T) * H * 64) return;
    const int i = pair % 64;
    const size_t head = pair / 64;
    const float a = __half2float(x[head * 128 + i]);
    const float b = __half2float(x[head * 128 + i + 64]);
    const float c = cosine[head * 64 + i];  // <- finding
    const float s = sine[head * 64 + i];
    y[head * 128 + i] = __float2half_rn(a * c - b * s);
    y[head * 128 + i + 64] = __float2half_rn(b * c + a * s);
}
