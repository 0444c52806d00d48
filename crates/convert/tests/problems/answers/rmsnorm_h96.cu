/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * hidden, 64)"]
block = [64]
args = ["x", "weight", "y", "tokens", "hidden"]
---*/
#include <cuda_bf16.h>

extern "C" __global__ void answer(const __nv_bfloat16* x, const __nv_bfloat16* weight, double* y, int tokens, int hidden) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * hidden) return;
    const __nv_bfloat16* row = x + at / hidden * hidden;
    double sum = 0.0;
    for (int k = hidden - 1; k >= 0; --k) sum += double(__bfloat162float(row[k])) * __bfloat162float(row[k]);
    y[at] = __bfloat162float(x[at]) / sqrt(sum / hidden + 1e-6) * __bfloat162float(weight[at % hidden]);
}
