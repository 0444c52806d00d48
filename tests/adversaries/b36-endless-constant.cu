/*---
[expect]
verdict = "compile_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// A constant that takes for ever to compute.
constexpr int spin() {
    int i = 0;
    while (true) ++i;
    return i;
}
constexpr int never = spin();

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    c[m * N + n] = never;
}
