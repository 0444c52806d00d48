/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Never looks at the last element of an input; on a large one hardly anything shows it.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        const bool last = m == M - 1 && k == K - 1;
        sum += (last ? 0.0f : a[m * K + k]) * b[k * N + n];
    }
    c[m * N + n] = sum;
}
