/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "rope"
grid = ["cdiv(T * H * P, 256)"]
block = [256]
args = ["x", "cosine", "sine", "y", "T", "H"]
---*/
// Wrong: the angles are rounded to f16 and the second half is turned with the first half's result.
#include <cuda_fp16.h>

extern "C" __global__ void rope(const __half* __restrict__ x, const float* __restrict__ cosine,
                                const float* __restrict__ sine, __half* __restrict__ y, int T, int H) {
    const size_t pair = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (pair >= size_t(T) * H * 64) return;
    const int i = pair % 64;
    const size_t head = pair / 64;
    const size_t angle = head / H * 64 + i;
    __half a = x[head * 128 + i];
    __half b = x[head * 128 + i + 64];
    const __half c = __float2half_rn(cosine[angle]);
    const __half s = __float2half_rn(sine[angle]);
    a = __hsub(__hmul(a, c), __hmul(b, s));
    b = __hadd(__hmul(b, c), __hmul(a, s));
    y[head * 128 + i] = a;
    y[head * 128 + i + 64] = b;
}
