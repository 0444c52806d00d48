/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = [128]
args = ["x", "residual", "weight", "y", "eps", "D"]
---*/
// Wrong: the sums of the warps are read without a barrier after they were written.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(128)
    rmsnorm(const __half* __restrict__ x, float* __restrict__ residual,
            const __half* __restrict__ weight, __half* __restrict__ y, float eps, int D) {
    __shared__ float of_warp[4];
    const size_t first = size_t(blockIdx.x) * D;
    float squares = 0.0f;
    for (int d = threadIdx.x; d < D; d += 128) {
        const float sum = residual[first + d] + __half2float(x[first + d]);
        residual[first + d] = sum;
        squares += sum * sum;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = squares;  // <- finding
    squares = (of_warp[0] + of_warp[1]) + (of_warp[2] + of_warp[3]);
    const float inverse = rsqrtf(squares / D + eps);
    for (int d = threadIdx.x; d < D; d += 128) {
        y[first + d] = __float2half_rn(residual[first + d] * inverse * __half2float(weight[d]));
    }
}
