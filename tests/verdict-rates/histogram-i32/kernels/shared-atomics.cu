/*---
[[launch]]
kernel = "count_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "counts", "C"]

[tunables.THREADS]
value = 128
choices = [64, 128]
---*/
// One block counts one row in shared memory.
extern "C" __global__ void count_rows(const int* x, int* counts, int C) {
    __shared__ int bins[64];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    if (thread < 64) {
        bins[thread] = 0;
    }
    __syncthreads();
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        atomicAdd(&bins[x[size_t(row) * C + column] & 63], 1);
    }
    __syncthreads();
    if (thread < 64) {
        /*@out*/ counts[row * 64 + thread] = bins[thread];
    }
}
