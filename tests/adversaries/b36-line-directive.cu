/*---
[expect]
verdict = "compile_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(M * N, 256)"]
block = [256]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// A line directive in the assembly, which the compiler follows to a position that it does not have, and crashes.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M * N) return;
    asm volatile("\n\x23line 7 \"x\"\n");
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
    c[i] = sum;
}
