/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "product"
grid = ["cdiv(M * N, 256)"]
block = [256]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// A warp's place in its block is taken to be its number on the multiprocessor, which holds other blocks as well.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    unsigned warp;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    const int i = blockIdx.x * 256 + warp * 32 + threadIdx.x % 32;
    if (i >= M * N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
    c[i] = sum;
}
