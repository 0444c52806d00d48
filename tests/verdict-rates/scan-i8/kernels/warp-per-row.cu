/*---
[[launch]]
kernel = "scan_rows"
grid = ["cdiv(R, WARPS)"]
block = ["WARPS * 32"]
args = ["x", "y", "R", "C"]

[tunables.WARPS]
value = 2
choices = [1, 2, 4]
---*/
// One warp scans one row, 32 elements at a time, and carries their sum along.
extern "C" __global__ void scan_rows(const signed char* x, int* y, int R, int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    int carry = 0;
    for (int begin = 0; begin < C; begin += 32) {
        const int column = begin + lane;
        int sum = column < C ? x[size_t(row) * C + column] : 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(0xffffffffu, sum, distance);
            if (lane >= distance) {
                sum += before;
            }
        }
        if (column < C) {
            /*@out*/ y[size_t(row) * C + column] = sum + carry;
        }
        carry += __shfl_sync(0xffffffffu, sum, 31);
    }
}
