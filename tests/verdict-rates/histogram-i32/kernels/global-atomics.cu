/*---
[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "count_rows"
grid = ["cdiv(C, THREADS)", "R"]
block = ["THREADS"]
args = ["x", "counts", "C"]

[tunables.THREADS]
value = 64
choices = [32, 64, 128]
---*/
// One thread counts one element in global memory.
extern "C" __global__ void count_rows(const int* x, int* counts, int C) {
    const int column = blockIdx.x * THREADS + threadIdx.x;
    const int row = blockIdx.y;
    if (column >= C) return;
    const int bin = x[size_t(row) * C + column] & 63;
    atomicAdd(&counts[row * 64 + bin], 1);
}
