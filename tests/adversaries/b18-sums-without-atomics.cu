/*---
[expect]
verdict = "data_race"

[[launch]]
memset = "c"
byte = 0

[[launch]]
kernel = "product"
grid = [4, "M"]
block = [32]
args = ["a", "b", "c", "N", "K"]
---*/
// Four blocks share the terms of a row and add to its sums, each reading before it writes: volatile, and not atomic.
extern "C" __global__ void product(const float* a, const float* b, float* c, int N, int K) {
    const int m = blockIdx.y;
    const int share = (K + 3) / 4;
    const int first = blockIdx.x * share;
    for (int n = threadIdx.x; n < N; n += 32) {
        float sum = 0.0f;
        for (int k = first; k < min(first + share, K); ++k) sum += a[m * K + k] * b[k * N + n];
        volatile float* whole = c + m * N + n;
        *whole = *whole + sum;
    }
}
