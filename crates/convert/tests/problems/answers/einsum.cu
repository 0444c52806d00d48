/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(b * i * j * k, 64)"]
block = [64]
args = ["A", "B", "y", "b", "i", "j", "l", "k"]
---*/
extern "C" __global__ void answer(const float* A, const float* B, double* y, int b, int i, int j, int l, int k) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= b * i * j * k) return;
    double sum = 0.0;
    for (int c = 0; c < l; ++c) sum += double(A[at / k * l + c]) * B[c * k + at % k];
    y[at] = sum;
}
