/*---
[[launch]]
kernel = "product"
grid = ["cdiv(N, 32)", "cdiv(M, ROWS)"]
block = [32, "ROWS"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.ROWS]
value = 4
choices = [2, 4, 8]
---*/
// One thread computes one element.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const int m = blockIdx.y * ROWS + threadIdx.y;
    if (m >= M || n >= N) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int k = 0; k < K; k += 1) {
        sum += a[size_t(m) * K + k] * b[size_t(k) * N + n];
    }
    /*@out*/ c[size_t(m) * N + n] = sum;
}
