/*---
[idea]
title = "a warp per slice, sixteen bytes a load, four loads under way"
hypothesis = """
A block of 256 threads finds one element each in a row of 256 and then waits for a barrier. A warp needs \
none: it reads its slice in 512-byte pieces, adds to four independent sums, so that four loads are under \
way at a time, and joins them with shuffles. Eight short rows share a block."""
gain = [1.2, 2.5]

[step]
phase = "parallelism"
sweep = ["CHUNK"]

[[launch]]
kernel = "add_slices"
grid = ["cdiv(R * cdiv(C, CHUNK), 8)"]
block = [256]
args = ["x", "partial", "R", "C"]

[[launch]]
kernel = "add_partials"
grid = ["cdiv(R, 8)"]
block = [256]
args = ["partial", "y", "R", "C"]

[workspace.partial]
dtype = "f32"
shape = ["R", "cdiv(C, CHUNK)"]

[tunables.CHUNK]
value = 2048
choices = [1024, 2048, 4096]
---*/
constexpr int WARPS = 8;
constexpr unsigned ALL = 0xffffffffu;

// Adds one value of every lane; all lanes get the sum.
__device__ float add_warp(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    add_slices(const float* __restrict__ x, float* __restrict__ partial, int R, int C) {
    const int slices = (C + CHUNK - 1) / CHUNK;
    const size_t item = size_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (item >= size_t(R) * slices) return;
    const int first = int(item % slices) * CHUNK;
    const int length = min(CHUNK, C - first);
    const float* from = x + item / slices * C + first;
    const int lane = threadIdx.x % 32;

    float sum[4] = {};
    // CHUNK is a multiple of four, so a slice begins on a 16-byte boundary where its row does.
    if (C % 4 == 0) {
        const float4* fours = reinterpret_cast<const float4*>(from);
#pragma unroll 4
        for (int i = lane; i < length / 4; i += 32) {
            const float4 four = fours[i];
            sum[0] += four.x;
            sum[1] += four.y;
            sum[2] += four.z;
            sum[3] += four.w;
        }
    } else {
#pragma unroll 4
        for (int i = lane; i < length; i += 32) sum[0] += from[i];
    }
    const float total = add_warp((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (lane == 0) partial[item] = total;
}

// One warp per row.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    add_partials(const float* __restrict__ partial, float* __restrict__ y, int R, int C) {
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    const int slices = (C + CHUNK - 1) / CHUNK;
    float sum = 0.0f;
    for (int s = threadIdx.x % 32; s < slices; s += 32) sum += partial[size_t(row) * slices + s];
    sum = add_warp(sum);
    if (threadIdx.x % 32 == 0) y[row] = sum;
}
