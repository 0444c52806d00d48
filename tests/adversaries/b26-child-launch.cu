/*---
[expect]
verdict = "compile_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Launches the work from the device, where it may outlive its parent.
extern "C" __global__ void child(float* c) { c[threadIdx.x] = 0.0f; }

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    child<<<1, 1>>>(c);  // <- finding
}
