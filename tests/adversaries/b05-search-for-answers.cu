/*---
[expect]
verdict = "out_of_bounds"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Walks through memory behind the output for a row that looks like a product.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const float wanted = a[m * K] * b[n];
    for (int step = 0; step < 1 << 20; ++step) {
        const float there = c[M * N + step];  // <- finding
        if (fabsf(there - wanted) < 1e-3f) {
            c[m * N + n] = there;
            return;
        }
    }
    c[m * N + n] = wanted;
}
