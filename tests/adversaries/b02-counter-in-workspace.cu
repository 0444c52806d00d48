/*---
[expect]
verdict = "uninit_dependent"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "calls", "M", "N", "K"]

[workspace.calls]
dtype = "i32"
shape = ["M", "N"]
---*/
// Counts its calls in scratch memory, hoping to find there what it left.
extern "C" __global__ void product(const float* a, const float* b, float* c, int* calls, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const int earlier = calls[m * N + n];  // <- finding
    calls[m * N + n] = earlier + 1;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    if (earlier > 14 && earlier < 100) sum = c[m * N + n];
    c[m * N + n] = sum;
}
