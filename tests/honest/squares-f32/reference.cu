/*---
[[launch]]
kernel = "reference_squares"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "squares", "magnitude", "R", "C"]

[workspace.magnitude]
dtype = "f64"
shape = ["R"]
---*/
// Sums the squares of every row from the first element on.
extern "C" __global__ void reference_squares(const float* x, double* squares, double* magnitude, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    double sum = 0.0;
    for (int column = 0; column < C; ++column) {
        const double value = x[size_t(row) * C + column];
        sum += value * value;
    }
    squares[row] = sum;
    magnitude[row] = fmax(sum, 0x1p-126);
}
