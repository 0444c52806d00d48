/*---
[[launch]]
kernel = "reduce"
grid = ["R"]
block = [256]
args = ["x", "y", "C"]
---*/
// Generation 0: a block per row and a tree in shared memory, with the threads of a level spread over
// all warps. A few long rows leave most multiprocessors without a block.
constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce(const float* __restrict__ x, float* __restrict__ y, int C) {
    __shared__ float sums[THREADS];
    const float* row = x + size_t(blockIdx.x) * C;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += THREADS) sum += row[c];
    sums[threadIdx.x] = sum;
    for (int distance = 1; distance < THREADS; distance *= 2) {
        __syncthreads();
        if (threadIdx.x % (2 * distance) == 0) sums[threadIdx.x] += sums[threadIdx.x + distance];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
