/*---
[[launch]]
kernel = "softmax_rows"
grid = ["cdiv(R, THREADS)"]
block = ["THREADS"]
args = ["x", "y", "R", "C"]

[tunables.THREADS]
value = 32
choices = [32, 64]
---*/
// One thread walks over its row three times.
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= R) return;
    float top = x[size_t(row) * C];
    /*@any*/ for (int column = 1; column < C; column += 1) {
        top = fmaxf(top, x[size_t(row) * C + column]);
    }
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = 0; column < C; column += 1) {
        sum += expf(x[size_t(row) * C + column] - top);
    }
    /*@any*/ for (int column = 0; column < C; column += 1) {
        /*@out*/ y[size_t(row) * C + column] = expf(x[size_t(row) * C + column] - top) / sum;
    }
}
