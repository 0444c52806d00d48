/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size, 64)"]
block = [64]
args = ["a", "b", "y", "batch_size", "length"]
---*/
extern "C" __global__ void answer(const float* a, const float* b, double* y, int batch_size, int length) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size) return;
    double product = 0.0, first = 0.0, second = 0.0;
    for (int k = length - 1; k >= 0; --k) {
        const double x = a[at * length + k], z = b[at * length + k];
        product += x * z;
        first += x * x;
        second += z * z;
    }
    y[at] = product / fmax(sqrt(first) * sqrt(second), 1e-8);
}
