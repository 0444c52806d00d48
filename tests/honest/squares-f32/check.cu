/*---
[[launch]]
kernel = "checked_squares"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "squares", "magnitude", "R", "C"]

[workspace.magnitude]
dtype = "f64"
shape = ["R"]
---*/
// Sums the squares of every row from the last element on.
extern "C" __global__ void checked_squares(const float* x, double* squares, double* magnitude, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    double sum = 0.0;
    for (int column = C - 1; column >= 0; --column) {
        const double value = x[size_t(row) * C + column];
        sum += value * value;
    }
    squares[row] = sum;
    magnitude[row] = fmax(sum, 0x1p-126);
}
