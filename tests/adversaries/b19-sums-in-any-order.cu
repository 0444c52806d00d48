/*---
[expect]
verdict = "non_deterministic"

[[launch]]
memset = "c"
byte = 0

[[launch]]
kernel = "product"
grid = ["M", "K"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Blocks add their parts in the order in which they happen to come.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = threadIdx.x;
    const int m = blockIdx.x;
    const int k = blockIdx.y;
    for (int column = n; column < N; column += 32)
        atomicAdd(&c[m * N + column], a[m * K + k] * b[k * N + column]);
}
