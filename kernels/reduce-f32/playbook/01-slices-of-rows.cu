/*---
[idea]
title = "cut rows into slices, add the slices in a second launch"
hypothesis = """
With a block per row four rows occupy four of the multiprocessors. Slices of CHUNK elements give a long \
row hundreds of blocks, and leave one partial sum each. Shuffles replace the tree in shared memory."""
gain = [3.0, 10.0]

[step]
phase = "parallelism"
sweep = ["CHUNK"]

[[launch]]
kernel = "add_slices"
grid = ["R * cdiv(C, CHUNK)"]
block = [256]
args = ["x", "partial", "C"]

[[launch]]
kernel = "add_partials"
grid = ["cdiv(R, 8)"]
block = [256]
args = ["partial", "y", "R", "C"]

[workspace.partial]
dtype = "f32"
shape = ["R", "cdiv(C, CHUNK)"]

[tunables.CHUNK]
value = 4096
choices = [2048, 4096, 8192]
---*/
constexpr int THREADS = 256;
constexpr unsigned ALL = 0xffffffffu;

// Adds one value of every lane; all lanes get the sum.
__device__ float add_warp(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    add_slices(const float* __restrict__ x, float* __restrict__ partial, int C) {
    __shared__ float of_warp[THREADS / 32];
    const int slices = (C + CHUNK - 1) / CHUNK;
    const int row = blockIdx.x / slices;
    const int first = blockIdx.x % slices * CHUNK;
    const int end = min(first + CHUNK, C);
    const float* from = x + size_t(row) * C;

    float sum = 0.0f;
    for (int c = first + threadIdx.x; c < end; c += THREADS) sum += from[c];
    sum = add_warp(sum);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; ++w) sum += of_warp[w];
        partial[blockIdx.x] = sum;
    }
}

// One warp per row.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_partials(const float* __restrict__ partial, float* __restrict__ y, int R, int C) {
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= R) return;
    const int slices = (C + CHUNK - 1) / CHUNK;
    float sum = 0.0f;
    for (int s = threadIdx.x % 32; s < slices; s += 32) sum += partial[size_t(row) * slices + s];
    sum = add_warp(sum);
    if (threadIdx.x % 32 == 0) y[row] = sum;
}
