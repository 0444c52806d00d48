/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Looks at the clock, as if to find out whether it is being timed; nothing comes of it.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const long long start = clock64();
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    if (clock64() < start) sum = 0.0f;
    c[m * N + n] = sum;
}
