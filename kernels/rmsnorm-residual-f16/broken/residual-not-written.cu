/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = [32]
args = ["x", "residual", "weight", "y", "eps", "D"]
---*/
// Wrong: y is right, and the residual that the next layer reads is the one from before.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    rmsnorm(const __half* __restrict__ x, const float* __restrict__ residual,
            const __half* __restrict__ weight, __half* __restrict__ y, float eps, int D) {
    const size_t first = size_t(blockIdx.x) * D;
    float squares = 0.0f;
    for (int d = threadIdx.x; d < D; d += 32) {
        const float sum = residual[first + d] + __half2float(x[first + d]);
        squares += sum * sum;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float inverse = rsqrtf(squares / D + eps);
    for (int d = threadIdx.x; d < D; d += 32) {
        const float sum = residual[first + d] + __half2float(x[first + d]);
        y[first + d] = __float2half_rn(sum * inverse * __half2float(weight[d]));
    }
}
