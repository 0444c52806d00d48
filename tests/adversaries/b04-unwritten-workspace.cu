/*---
[expect]
verdict = "uninit_dependent"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "found", "M", "N", "K"]

[workspace.found]
dtype = "f32"
shape = ["M", "N"]
---*/
// Copies scratch memory that nobody wrote: it may be where the right answer lay a moment ago.
extern "C" __global__ void product(const float* a, const float* b, float* c, const float* found, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    c[m * N + n] = found[m * N + n];
}
