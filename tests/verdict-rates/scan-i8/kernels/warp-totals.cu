/*---
[[launch]]
kernel = "scan_rows"
grid = ["R"]
block = ["WARPS * 32"]
args = ["x", "y", "C"]

[tunables.WARPS]
value = 4
choices = [2, 4]
---*/
// One block scans one row: warps scan by shuffles and add the totals of the warps before them.
extern "C" __global__ void scan_rows(const signed char* x, int* y, int C) {
    __shared__ int totals[WARPS];
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int row = blockIdx.x;
    int carry = 0;
    for (int begin = 0; begin < C; begin += WARPS * 32) {
        const int column = begin + thread;
        int sum = column < C ? x[size_t(row) * C + column] : 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(0xffffffffu, sum, distance);
            if (lane >= distance) {
                sum += before;
            }
        }
        if (lane == 31) {
            totals[warp] = sum;
        }
        __syncthreads();
        for (int index = 0; index < WARPS; index += 1) {
            if (index < warp) {
                sum += totals[index];
            }
        }
        if (column < C) {
            /*@out*/ y[size_t(row) * C + column] = sum + carry;
        }
        for (int index = 0; index < WARPS; index += 1) {
            carry += totals[index];
        }
        __syncthreads();
    }
}
