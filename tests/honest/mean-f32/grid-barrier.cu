/*---
[[launch]]
kernel = "mean_rows"
grid = [116]
block = [32]
args = ["x", "parts", "mean", "R", "C"]
cooperative = true

[workspace.parts]
dtype = "f32"
shape = ["R", 116]
---*/
// Every block sums its share of each row, the grid meets once, then blocks share the rows' sums.
#include <cooperative_groups.h>

__device__ float warp_sum(float sum) {
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    return sum;
}

extern "C" __global__ void mean_rows(const float* x, float* parts, float* mean, int R, int C) {
    const int lane = threadIdx.x;
    for (int row = 0; row < R; row += 1) {
        float sum = 0.0f;
        for (int column = blockIdx.x * 32 + lane; column < C; column += 116 * 32) {
            sum += x[size_t(row) * C + column];
        }
        sum = warp_sum(sum);
        if (lane == 0) parts[row * 116 + blockIdx.x] = sum;
    }
    cooperative_groups::this_grid().sync();
    for (int row = blockIdx.x; row < R; row += 116) {
        float sum = 0.0f;
        for (int part = lane; part < 116; part += 32) sum += parts[row * 116 + part];
        sum = warp_sum(sum);
        if (lane == 0) mean[row] = sum / C;
    }
}
