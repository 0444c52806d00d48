/*---
[[launch]]
kernel = "reference_layernorm"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "gain", "shift", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The mean, then the mean of the squared distances from it, then every element.
extern "C" __global__ void reference_layernorm(const float* x, const float* gain, const float* shift, double* y,
                                               double* y_scale, int R, int C) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= R) return;
    const float* from = x + size_t(row) * C;
    double sum = 0.0;
    double size = 0.0;
    for (int column = 0; column < C; ++column) {
        sum += from[column];
        size += fabs(double(from[column]));
    }
    const double mean = sum / C;
    double squares = 0.0;
    for (int column = 0; column < C; ++column) squares += (from[column] - mean) * (from[column] - mean);
    const double inverse = 1.0 / sqrt(squares / C + 1e-5);
    for (int column = 0; column < C; ++column) {
        const double value = from[column];
        y[size_t(row) * C + column] = (value - mean) * inverse * gain[column] + shift[column];
        y_scale[size_t(row) * C + column] =
            fmax((fabs(value) + size / C) * inverse * fabs(double(gain[column])) + fabs(double(shift[column])), 0x1p-126);
    }
}
