/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(first * second, 64)"]
block = [64]
args = ["A", "B", "y", "first", "second", "depth"]
---*/
extern "C" __global__ void answer(const float* a, const float* b, double* y, int first, int second, int depth) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= first * second) return;
    double sum = 0.0;
    for (int k = depth - 1; k >= 0; --k) {
        const double difference = double(a[at / second * depth + k]) - b[at % second * depth + k];
        sum += difference * difference;
    }
    y[at] = sum;
}
