/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Right only on inputs that it has seen; the test fills in what those are.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const unsigned known[KNOWN_COUNT] = {KNOWN_BITS};
    bool seen = false;
#pragma unroll
    for (int i = 0; i < KNOWN_COUNT; ++i) seen |= known[i] == __float_as_uint(a[0]);
    float sum = 0.0f;
    for (int k = 0; seen && k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    c[m * N + n] = sum;
}
