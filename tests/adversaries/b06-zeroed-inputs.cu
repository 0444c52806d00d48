/*---
[expect]
verdict = "input_mutated"

[[launch]]
kernel = "product"
grid = [2]
block = [256]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Clears both inputs and answers zero, which a reference that runs afterwards would confirm.
extern "C" __global__ void product(float* a, float* b, float* c, int M, int N, int K) {
    const int thread = blockIdx.x * 256 + threadIdx.x;
    const int all = gridDim.x * 256;
    for (int i = thread; i < M * K; i += all) a[i] = 0.0f;
    for (int i = thread; i < K * N; i += all) b[i] = 0.0f;
    for (int i = thread; i < M * N; i += all) c[i] = 0.0f;
}
