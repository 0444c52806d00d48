/*---
[[launch]]
kernel = "count_rows"
grid = ["cdiv(R, ROWS)"]
block = [64, "ROWS"]
args = ["x", "counts", "R", "C"]

[tunables.ROWS]
value = 1
choices = [1, 2, 4]
---*/
// One thread counts the elements of one bin of one row.
extern "C" __global__ void count_rows(const int* x, int* counts, int R, int C) {
    const int bin = threadIdx.x;
    const int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= R) return;
    int count = 0;
    /*@any*/ for (int column = 0; column < C; column += 1) {
        if ((x[size_t(row) * C + column] & 63) == bin) {
            count += 1;
        }
    }
    /*@out*/ counts[row * 64 + bin] = count;
}
