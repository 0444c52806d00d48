/*---
[[launch]]
kernel = "mean_rows"
grid = ["min(R * PARTS, 24)"]
block = [64]
cooperative = true
args = ["x", "parts", "mean", "R", "C"]

[workspace.parts]
dtype = "f32"
shape = ["R", "PARTS"]

[tunables.PARTS]
value = 2
choices = [1, 2, 4]
---*/
// The grid sums parts of rows, meets at a barrier, and adds the parts.
#include <cooperative_groups.h>
extern "C" __global__ void mean_rows(const float* x, float* parts, float* mean, int R, int C) {
    __shared__ float partial[2];
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int thread = threadIdx.x;
    const int width = (C + PARTS - 1) / PARTS;
    for (int index = blockIdx.x; index < R * PARTS; index += gridDim.x) {
        const int row = index / PARTS;
        const int part = index % PARTS;
        const int end = min(C, (part + 1) * width);
        /*@wide*/ float sum = 0.0f;
        /*@any*/ for (int column = part * width + thread; column < end; column += 64) {
            sum += x[size_t(row) * C + column];
        }
        for (int distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (thread % 32 == 0) {
            partial[thread / 32] = sum;
        }
        __syncthreads();
        if (thread == 0) {
            parts[index] = partial[0] + partial[1];
        }
        __syncthreads();
    }
    grid.sync();
    for (int row = blockIdx.x * 64 + thread; row < R; row += gridDim.x * 64) {
        float total = 0.0f;
        for (int part = 0; part < PARTS; part += 1) {
            total += parts[row * PARTS + part];
        }
        /*@out*/ mean[row] = total / C;
    }
}
