/*---
[[launch]]
kernel = "scan_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "y", "C"]

[tunables.THREADS]
value = 64
choices = [32, 64, 128]
---*/
// One block scans one row; each step adds what lies twice as far back, from one buffer to the other.
extern "C" __global__ void scan_rows(const signed char* x, int* y, int C) {
    __shared__ int sums[2][THREADS];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    int carry = 0;
    for (int begin = 0; begin < C; begin += THREADS) {
        const int column = begin + thread;
        int from = 0;
        sums[0][thread] = column < C ? x[size_t(row) * C + column] : 0;
        __syncthreads();
        for (int distance = 1; distance < THREADS; distance *= 2) {
            const int before = thread >= distance ? sums[from][thread - distance] : 0;
            sums[from ^ 1][thread] = sums[from][thread] + before;
            from ^= 1;
            __syncthreads();
        }
        if (column < C) {
            /*@out*/ y[size_t(row) * C + column] = sums[from][thread] + carry;
        }
        carry += sums[from][THREADS - 1];
        __syncthreads();
    }
}
