/*---
[expect]
verdict = "compile_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Declares the device runtime itself.
extern "C" __device__ int cudaLaunchDevice(void*, void*, dim3, dim3, unsigned, void*);

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    cudaLaunchDevice(nullptr, nullptr, dim3(1), dim3(1), 0, nullptr);
    c[m * N + n] = 0.0f;
}
