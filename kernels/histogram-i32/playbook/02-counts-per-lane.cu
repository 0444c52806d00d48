/*---
[idea]
title = "a copy of the counts per lane, each in its own bank"
hypothesis = """
The lanes of a warp meet at the same words and banks of shared memory, and an atomic of a warp takes as \
long as its fullest bank. With COPIES copies, interleaved so that a lane always uses the same bank, lanes \
of one warp no longer meet. Sixteen bytes a load leave a sixteenth of the loads."""
gain = [1.2, 3.0]

[step]
phase = "contention"
sweep = ["COPIES", "BLOCKS"]

[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["min(cdiv(N, 4096), BLOCKS * SM_COUNT)"]
block = [256]
args = ["x", "counts", "N"]

[tunables.COPIES]
value = 32
choices = [8, 16, 32]
[tunables.BLOCKS]
value = 2
choices = [1, 2]
---*/
constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char* __restrict__ x, int* __restrict__ counts, int N) {
    __shared__ int found[256 * COPIES];
    for (int i = threadIdx.x; i < 256 * COPIES; i += THREADS) found[i] = 0;
    __syncthreads();

    int* mine = found + threadIdx.x % COPIES;
    const int pieces = N / 16;
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    const int threads = gridDim.x * THREADS;
    for (int p = thread; p < pieces; p += threads) {
        const uint4 piece = reinterpret_cast<const uint4*>(x)[p];
        const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
#pragma unroll
            for (int b = 0; b < 32; b += 8) atomicAdd(mine + ((words[w] >> b) & 255) * COPIES, 1);
        }
    }
    // At most fifteen bytes are behind the last whole piece.
    const int tail = 16 * pieces + thread;
    if (tail < N) atomicAdd(mine + x[tail] * COPIES, 1);
    __syncthreads();

    // Each thread adds the copies of one bin, and begins at its own, so that the lanes of a warp are
    // at different banks.
    const int bin = threadIdx.x;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) sum += found[bin * COPIES + (bin + i) % COPIES];
    if (sum != 0) atomicAdd(counts + bin, sum);
}
