/*---
[idea]
title = "one block per slice of a row"
hypothesis = "a row is summed by SLICES blocks at once, so that few long rows fill the device"
gain = [2.0, 6.0]

[[launch]]
kernel = "sum_slices"
grid = ["ROWS", "SLICES"]
block = ["32 * WARPS"]
args = ["x", "partial", "ROWS", "N"]

[[launch]]
kernel = "add_slices"
grid = ["cdiv(ROWS, 128)"]
block = [128]
args = ["partial", "y", "ROWS"]

[workspace.partial]
dtype = "f32"
shape = ["ROWS", "SLICES"]

[tunables.SLICES]
value = 8
choices = [1, 2, 4, 8, 16]

[tunables.WARPS]
value = 4
choices = [1, 2, 4, 8]
---*/
extern "C" __global__ void sum_slices(const float* __restrict__ x, float* __restrict__ partial,
                                      int rows, int n) {
    __shared__ float of_warp[WARPS];
    const float* row = x + size_t(blockIdx.x) * n;
    const int step = SLICES * 32 * WARPS;
    float sum = 0.0f;
    for (int i = blockIdx.y * 32 * WARPS + threadIdx.x; i < n; i += step) sum += row[i];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; ++warp) sum += of_warp[warp];
        partial[size_t(blockIdx.x) * SLICES + blockIdx.y] = sum;
    }
}

extern "C" __global__ void add_slices(const float* __restrict__ partial, float* __restrict__ y,
                                      int rows) {
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int slice = 0; slice < SLICES; ++slice) sum += partial[size_t(row) * SLICES + slice];
    y[row] = sum;
}
