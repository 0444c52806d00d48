/*---
[idea]
title = "count in shared memory first"
hypothesis = """
Every byte is an atomic in the second level cache, and equal bytes wait for each other across the \
device. A block that counts its bytes in shared memory sends one atomic per bin and block instead of one \
per byte."""
gain = [2.0, 20.0]

[step]
phase = "contention"
sweep = ["BLOCKS", "THREADS"]

[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["min(cdiv(N, THREADS), BLOCKS * SM_COUNT)"]
block = ["THREADS"]
args = ["x", "counts", "N"]

[tunables.BLOCKS]
value = 2
choices = [1, 2, 4]
[tunables.THREADS]
value = 512
choices = [256, 512]
---*/
extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char* __restrict__ x, int* __restrict__ counts, int N) {
    __shared__ int found[256];
    for (int b = threadIdx.x; b < 256; b += THREADS) found[b] = 0;
    __syncthreads();
    for (int n = blockIdx.x * THREADS + threadIdx.x; n < N; n += gridDim.x * THREADS) {
        atomicAdd(found + x[n], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += THREADS) {
        if (found[b] != 0) atomicAdd(counts + b, found[b]);
    }
}
