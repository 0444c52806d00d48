/*---
[[launch]]
kernel = "reference_mean"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "mean", "magnitude", "R", "C"]

[workspace.magnitude]
dtype = "f64"
shape = ["R"]
---*/
// Sums every row and its absolute values from the first element on.
extern "C" __global__ void reference_mean(const float* x, double* mean, double* magnitude, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    double sum = 0.0;
    double size = 0.0;
    for (int column = 0; column < C; ++column) {
        const double value = x[size_t(row) * C + column];
        sum += value;
        size += fabs(value);
    }
    mean[row] = sum / C;
    magnitude[row] = fmax(size / C, 0x1p-126);
}
