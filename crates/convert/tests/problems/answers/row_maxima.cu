/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(rows, 64)"]
block = [64]
args = ["x", "maxima", "rows", "columns"]
---*/
extern "C" __global__ void answer(const float* x, double* maxima, int rows, int columns) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows) return;
    double largest = 0.0;
    for (int k = 0; k < columns; ++k) largest = fmax(largest, fabs(double(x[at * columns + k])));
    maxima[at] = largest;
}
