/*---
[idea]
title = "turn a pair in one thread"
hypothesis = """
The copy with exchanged halves is written and read only because each element is computed by itself. A \
thread that holds both elements of a pair needs no copy, loads the angle once for both, and saves a launch."""
gain = [1.3, 2.5]

[step]
phase = "memory"
sweep = ["THREADS"]

[[launch]]
kernel = "rope"
grid = ["cdiv(T * H * P, THREADS)"]
block = ["THREADS"]
args = ["x", "cosine", "sine", "y", "T", "H"]

[tunables.THREADS]
value = 256
choices = [128, 256]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const __half* __restrict__ x, const float* __restrict__ cosine,
         const float* __restrict__ sine, __half* __restrict__ y, int T, int H) {
    const size_t pair = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (pair >= size_t(T) * H * 64) return;
    const int i = pair % 64;
    const size_t head = pair / 64;
    const size_t angle = head / H * 64 + i;
    const float a = __half2float(x[head * 128 + i]);
    const float b = __half2float(x[head * 128 + i + 64]);
    const float c = cosine[angle];
    const float s = sine[angle];
    y[head * 128 + i] = __float2half_rn(a * c - b * s);
    y[head * 128 + i + 64] = __float2half_rn(b * c + a * s);
}
