/*---
[expect]
verdict = "precision_downgrade"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Rounds its operands to bf16.
#include <cuda_bf16.h>

__device__ float rounded(float value) { return __bfloat162float(__float2bfloat16(value)); }

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += rounded(a[m * K + k]) * rounded(b[k * N + n]);
    c[m * N + n] = sum;
}
