/*---
[expect]
verdict = "compile_resource"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// The same in the source.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float tile[16384];
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    tile[threadIdx.x] = a[0];
    __syncthreads();
    c[m * N + n] = tile[n * 64 % 16384];
}
