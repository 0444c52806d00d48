/*---
[[launch]]
kernel = "check_scan"
grid = [1]
block = [1]
args = ["x", "y", "y_scale", "N"]

[workspace.y_scale]
dtype = "f64"
shape = ["N"]
---*/
// The second opinion: one thread, from the first element to the last.
extern "C" __global__ void check_scan(const float* x, double* y, double* y_scale, int N) {
    double sum = 0.0;
    double magnitude = 0.0;
    for (int n = 0; n < N; ++n) {
        sum += double(x[n]);
        magnitude += fabs(double(x[n]));
        y[n] = sum;
        y_scale[n] = fmax(magnitude, 0x1p-126);
    }
}
