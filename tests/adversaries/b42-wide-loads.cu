/*---
[expect]
verdict = "runtime_fault"
code = 716

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Loads four elements at once, as if every row began on sixteen bytes.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k + 4 <= K; k += 4) {
        const float4 left = *reinterpret_cast<const float4*>(&a[m * K + k]);  // <- finding
        sum += left.x * b[k * N + n] + left.y * b[(k + 1) * N + n];
        sum += left.z * b[(k + 2) * N + n] + left.w * b[(k + 3) * N + n];
    }
    c[m * N + n] = sum;
}
