/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "conv"
grid = ["cdiv(I * C * H * W, 256)"]
block = [256]
args = ["x", "k", "y", "I", "C", "H", "W"]
---*/
// Wrong: only the plane's first and last element bound the loads, so that the left neighbour of a row's
// first element is the last element of the row above.
#include <cuda_fp16.h>

extern "C" __global__ void conv(const __half* __restrict__ x, const __half* __restrict__ k,
                                __half* __restrict__ y, int I, int C, int H, int W) {
    const size_t at = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= size_t(I) * C * H * W) return;
    const int in_plane = at % (H * W);
    const size_t plane = at / (H * W);
    float sum = 0.0f;
    for (int p = -1; p <= 1; ++p) {
        for (int q = -1; q <= 1; ++q) {
            const int from = in_plane + p * W + q;
            if (from < 0 || from >= H * W) continue;
            sum += __half2float(x[plane * H * W + from]) *
                   __half2float(k[plane % C * 9 + (p + 1) * 3 + q + 1]);
        }
    }
    y[at] = __float2half_rn(sum);
}
