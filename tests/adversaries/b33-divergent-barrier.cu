/*---
[expect]
verdict = "barrier_error"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Half of a block waits for the other half, which has other plans.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (threadIdx.y < 8) __syncthreads();  // <- finding
    else asm volatile("bar.sync 1;");
    if (m < M && n < N) c[m * N + n] = 0.0f;
}
