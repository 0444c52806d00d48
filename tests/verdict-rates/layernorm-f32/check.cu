/*---
[[launch]]
kernel = "check_layernorm"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "gain", "shift", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// Mean and variance in one pass from the last element back, each element updating both.
extern "C" __global__ void check_layernorm(const float* x, const float* gain, const float* shift, double* y,
                                           double* y_scale, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    const size_t first = size_t(row) * C;
    double mean = 0.0;
    double spread = 0.0;
    double size = 0.0;
    for (int seen = 1; seen <= C; ++seen) {
        const double value = x[first + C - seen];
        const double distance = value - mean;
        mean += distance / seen;
        spread += distance * (value - mean);
        size += (fabs(value) - size) / seen;
    }
    const double deviation = sqrt(spread / C + 1e-5);
    for (int column = 0; column < C; ++column) {
        const double value = x[first + column];
        y[first + column] = (value - mean) / deviation * gain[column] + shift[column];
        y_scale[first + column] =
            fmax((fabs(value) + size) / deviation * fabs(double(gain[column])) + fabs(double(shift[column])), 0x1p-126);
    }
}
