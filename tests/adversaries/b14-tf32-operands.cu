/*---
[expect]
verdict = "precision_downgrade"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Rounds its operands to the ten bits of TF32, as tensor cores do.
__device__ float rounded(float value) {
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += rounded(a[m * K + k]) * rounded(b[k * N + n]);
    c[m * N + n] = sum;
}
