/*---
[[launch]]
kernel = "check_softmax"
grid = ["cdiv(R, 64)"]
block = [64]
args = ["x", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The second opinion: a thread walks over its row once, with the mass kept relative to a running
// maximum, and never subtracts the final maximum: y = exp(x - log(sum of exp)).
extern "C" __global__ void check_softmax(const float* x, double* y, double* y_scale, int R, int C) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= R) return;
    const float* from = x + size_t(row) * C;

    double largest = from[0];
    double mass = 1.0;
    for (int c = 1; c < C; ++c) {
        const double element = from[c];
        if (element > largest) {
            mass = mass * exp(largest - element) + 1.0;
            largest = element;
        } else {
            // Equal infinities have no difference, and the same weight.
            mass += element == largest ? 1.0 : exp(element - largest);
        }
    }
    // Beside an infinite element no other has a weight, and its own is infinity over infinity.
    if (largest == INFINITY) mass = NAN;
    const double log_sum = largest + log(mass);
    for (int c = 0; c < C; ++c) {
        const double quotient = exp(from[c] - log_sum);
        y[size_t(row) * C + c] = quotient;
        // As in reference.cu.
        y_scale[size_t(row) * C + c] = fmax(quotient * (1.0 + fabs(from[c] - largest)), 0x1p-126);
    }
}
