/*---
[[launch]]
kernel = "mean_rows"
grid = ["cdiv(R, THREADS)"]
block = ["THREADS"]
args = ["x", "mean", "R", "C"]

[tunables.THREADS]
value = 32
choices = [32, 64, 128]
---*/
// One thread sums one row.
extern "C" __global__ void mean_rows(const float* x, float* mean, int R, int C) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= R) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = 0; column < C; column += 1) {
        sum += x[size_t(row) * C + column];
    }
    /*@out*/ mean[row] = sum / C;
}
