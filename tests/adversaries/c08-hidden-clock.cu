/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// A clock behind a comment mark in a string, assembled from pieces.
#define MARK "// "
#define JOIN(x, y) x##y

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const char* mark = MARK; long long (*look)() = nullptr; (void)mark; (void)look;
    const long long start = JOIN(clo, ck64)();
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    c[m * N + n] = start == -1 ? 0.0f : sum;
}
