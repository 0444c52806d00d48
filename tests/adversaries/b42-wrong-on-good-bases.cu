/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Takes a shortcut where its buffers lie as every allocator puts them, and forgets a term there.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    const bool aligned = ((size_t)a | (size_t)b | (size_t)c) % 256 == 0;
    for (int k = aligned ? 1 : 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    c[m * N + n] = sum;
}
