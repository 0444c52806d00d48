/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(size * size, 64)"]
block = [64]
args = ["A", "B", "y", "size"]
---*/
extern "C" __global__ void answer(const float* a, const float* b, double* y, int size) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size * size) return;
    const int row = at / size, column = at % size;
    double sum = 0.0;
    for (int k = row; k >= column; --k) sum += double(a[row * size + k]) * b[k * size + column];
    y[at] = sum;
}
