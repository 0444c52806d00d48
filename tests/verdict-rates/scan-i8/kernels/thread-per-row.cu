/*---
[[launch]]
kernel = "scan_rows"
grid = ["cdiv(R, THREADS)"]
block = ["THREADS"]
args = ["x", "y", "R", "C"]

[tunables.THREADS]
value = 32
choices = [32, 64]
---*/
// One thread adds up its row.
extern "C" __global__ void scan_rows(const signed char* x, int* y, int R, int C) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= R) return;
    int sum = 0;
    for (int column = 0; column < C; column += 1) {
        sum += x[size_t(row) * C + column];
        /*@out*/ y[size_t(row) * C + column] = sum;
    }
}
