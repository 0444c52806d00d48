/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * d, 64)"]
block = [64]
args = ["x", "out", "tokens", "d"]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void answer(const __half* x, double* out, int tokens, int d) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * d) return;
    const double gate = __half2float(x[at / d * 2 * d + at % d]), up = __half2float(x[at / d * 2 * d + d + at % d]);
    out[at] = gate / (1.0 + exp(-gate)) * up;
}
