/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(rows, 64)"]
block = [64]
args = ["data", "y", "rows", "columns"]
---*/
extern "C" __global__ void answer(const float* data, double* y, int rows, int columns) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows) return;
    double largest = 0.0;
    for (int k = 0; k < columns; ++k) largest = fmax(largest, fabs(double(data[at * columns + k])));
    y[at] = largest;
}
