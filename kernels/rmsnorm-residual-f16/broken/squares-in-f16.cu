/*---
[expect]
verdict = "precision_downgrade"

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = [32]
args = ["x", "residual", "weight", "y", "eps", "D"]
---*/
// Wrong: the squares are added in f16. Their sum has three digits, and none where a channel is
// larger than 255 and its square infinite.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
    rmsnorm(const __half* __restrict__ x, float* __restrict__ residual,
            const __half* __restrict__ weight, __half* __restrict__ y, float eps, int D) {
    const size_t first = size_t(blockIdx.x) * D;
    __half squares = __float2half_rn(0.0f);
    for (int d = threadIdx.x; d < D; d += 32) {
        const float sum = residual[first + d] + __half2float(x[first + d]);
        residual[first + d] = sum;
        squares = __hfma(__float2half_rn(sum), __float2half_rn(sum), squares);
    }
    for (int step = 16; step > 0; step /= 2) {
        squares = __hadd(squares, __shfl_xor_sync(0xffffffffu, squares, step));
    }
    const float inverse = rsqrtf(__half2float(squares) / D + eps);
    for (int d = threadIdx.x; d < D; d += 32) {
        y[first + d] = __float2half_rn(residual[first + d] * inverse * __half2float(weight[d]));
    }
}
