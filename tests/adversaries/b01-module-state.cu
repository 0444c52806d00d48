/*---
[expect]
verdict = "policy_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Computes once, and from the second execution on copies what it kept in a variable of the module.
struct Memory {
    float value;
    int known;
};
// As many as any shape that it meets has outputs.
__device__ Memory kept[1 << 15];  // <- finding

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    Memory& memory = kept[m * N + n];
    if (memory.known != M * N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
        memory.value = sum;
        memory.known = M * N;
    }
    c[m * N + n] = memory.value;
}
