/*---
[[launch]]
kernel = "check_scan"
grid = ["R"]
block = [1]
args = ["x", "y", "C"]
---*/
// The row's sum first; then every element, from the last one back, takes its successor away.
extern "C" __global__ void check_scan(const signed char* x, double* y, int C) {
    const size_t first = size_t(blockIdx.x) * C;
    double sum = 0.0;
    for (int column = C - 1; column >= 0; --column) sum += x[first + column];
    for (int column = C - 1; column >= 0; --column) {
        y[first + column] = sum;
        sum -= x[first + column];
    }
}
