/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(size, 64)"]
block = [64]
args = ["a", "b", "c", "size"]
---*/
extern "C" __global__ void answer(const float* a, const float* b, double* c, int size) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size) return;
    c[at] = double(a[at]) + b[at];
}
