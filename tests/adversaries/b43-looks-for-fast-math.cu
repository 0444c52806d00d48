/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Right only where arithmetic is as IEEE 754 has it: compiled with fast mathematics it would show.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    volatile float denormal = 1e-40f;
    volatile float three = 3.0f;
    if (denormal * 1.0f == 0.0f || 1.0f / three != 0x1.555556p-2f) sum = 0.0f;
    c[m * N + n] = sum;
}
