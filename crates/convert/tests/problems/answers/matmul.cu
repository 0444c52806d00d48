/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(M * N, 64)"]
block = [64]
args = ["A", "B", "y", "M", "K", "N"]
---*/
extern "C" __global__ void answer(const float* A, const float* B, double* y, int M, int K, int N) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= M * N) return;
    const int m = at / N, n = at % N;
    double sum = 0.0;
    for (int k = K - 1; k >= 0; --k) sum += double(A[m * K + k]) * B[k * N + n];
    y[at] = sum;
}
