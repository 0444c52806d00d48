/*---
[[launch]]
kernel = "count_rows"
grid = ["R"]
block = ["WARPS * 32"]
args = ["x", "counts", "C"]

[tunables.WARPS]
value = 4
choices = [2, 4]
---*/
// Every warp of a row's block counts in bins of its own, which are then added.
extern "C" __global__ void count_rows(const int* x, int* counts, int C) {
    __shared__ int bins[WARPS][64];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.x;
    bins[warp][lane] = 0;
    bins[warp][lane + 32] = 0;
    __syncwarp();
    /*@any*/ for (int column = threadIdx.x; column < C; column += WARPS * 32) {
        atomicAdd(&bins[warp][x[size_t(row) * C + column] & 63], 1);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 64; bin += WARPS * 32) {
        int count = 0;
        for (int index = 0; index < WARPS; index += 1) {
            count += bins[index][bin];
        }
        /*@out*/ counts[row * 64 + bin] = count;
    }
}
