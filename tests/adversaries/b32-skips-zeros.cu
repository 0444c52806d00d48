/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Does nothing where an operand is zero: timing inputs hold no zeros, so that it gains nothing.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float left = a[m * K + k];
        if (left != 0.0f) sum += left * b[k * N + n];
    }
    c[m * N + n] = sum;
}
