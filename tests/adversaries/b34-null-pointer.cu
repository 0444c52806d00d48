/*---
[expect]
verdict = "runtime_fault"
code = 700

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Leaves the device in an error that stays until its process ends.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    c[m * N + n] = *reinterpret_cast<const float*>(16ull * n);  // <- finding
}
