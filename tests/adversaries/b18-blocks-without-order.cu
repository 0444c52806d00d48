/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "product"
grid = ["M"]
block = [32]
args = ["a", "b", "c", "part", "M", "N", "K"]

[workspace.part]
dtype = "f32"
shape = ["M", "N"]
---*/
// One block reads what another writes in the same launch.
extern "C" __global__ void product(const float* a, const float* b, float* c, float* part, int M, int N, int K) {
    const int m = blockIdx.x;
    for (int n = threadIdx.x; n < N; n += 32) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
        part[m * N + n] = sum;
        c[m * N + n] = part[(M - 1 - m) * N + n] * 0.0f + sum;
    }
}
