/*---
[[launch]]
kernel = "normalise_rows"
grid = ["cdiv(R, THREADS)"]
block = ["THREADS"]
args = ["x", "gain", "shift", "y", "R", "C"]

[tunables.THREADS]
value = 32
choices = [32, 64]
---*/
// One thread walks over its row three times.
extern "C" __global__ void normalise_rows(const float* x, const float* gain, const float* shift, float* y, int R,
                                          int C) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= R) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = 0; column < C; column += 1) {
        sum += x[size_t(row) * C + column];
    }
    const float mean = sum / C;
    /*@wide*/ float squares = 0.0f;
    /*@any*/ for (int column = 0; column < C; column += 1) {
        const float distance = x[size_t(row) * C + column] - mean;
        squares += distance * distance;
    }
    const float inverse = rsqrtf(squares / C + 1e-5f);
    /*@any*/ for (int column = 0; column < C; column += 1) {
        const float distance = x[size_t(row) * C + column] - mean;
        /*@out*/ y[size_t(row) * C + column] = distance * inverse * gain[column] + shift[column];
    }
}
