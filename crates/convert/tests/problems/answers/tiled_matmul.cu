/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(problem_size_x * problem_size_y, 64)"]
block = [64]
args = ["a", "b", "c", "problem_size_x", "problem_size_y", "depth"]
---*/
extern "C" __global__ void answer(const float* a, const float* b, double* c, int problem_size_x, int problem_size_y, int depth) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= problem_size_x * problem_size_y) return;
    double sum = 0.0;
    for (int k = depth - 1; k >= 0; --k) sum += double(a[at / problem_size_x * depth + k]) * b[k * problem_size_x + at % problem_size_x];
    c[at] = sum;
}
