/*---
[expect]
verdict = "policy_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Carries answers along instead of computing them.
constexpr int ANSWERS = 1025;
__constant__ float answers[ANSWERS] = {1.0f, 2.0f, 3.0f};  // <- finding

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    c[m * N + n] = answers[(m * N + n) % ANSWERS];
}
