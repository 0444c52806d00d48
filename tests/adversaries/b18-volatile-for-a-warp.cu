/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "product"
grid = ["N", "M"]
block = [32]
args = ["a", "b", "c", "N", "K"]
---*/
// A warp adds up in shared memory as if its lanes went in step: volatile, and nothing synchronises them.
extern "C" __global__ void product(const float* a, const float* b, float* c, int N, int K) {
    __shared__ volatile float sums[64];
    const int lane = threadIdx.x;
    const size_t row = blockIdx.y;
    float sum = 0.0f;
    for (int k = lane; k < K; k += 32) sum += a[row * K + k] * b[size_t(k) * N + blockIdx.x];
    sums[lane] = sum;
    sums[lane + 32] = 0.0f;
    for (int step = 16; step > 0; step /= 2) sums[lane] = sums[lane] + sums[lane + step];
    if (lane == 0) c[row * N + blockIdx.x] = sums[0];
}
