/*---
[expect]
verdict = "input_mutated"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "M"]
block = [16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Uses a row of an input as scratch memory, and puts back what was there before the launch ends.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y;
    float sum = 0.0f;
    if (n < N) for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    if (blockIdx.x == 0 && gridDim.x == 1 && threadIdx.x == 0) {
        volatile float* scratch = const_cast<float*>(a) + m * K;
        const float kept = scratch[0];
        scratch[0] = 2.0f * kept;
        scratch[0] = kept;
    }
    if (n < N) c[m * N + n] = sum;
}
