/*---
[[launch]]
kernel = "check_histogram"
grid = [1]
block = [64]
args = ["x", "counts", "N"]
---*/
// The second opinion: one block. Each thread owns four bins and walks over all bytes.
extern "C" __global__ void check_histogram(const unsigned char* x, double* counts, int N) {
    double mine[4] = {};
    for (int n = 0; n < N; ++n) {
        if (x[n] / 4 == threadIdx.x) {
#pragma unroll
            for (int i = 0; i < 4; ++i) mine[i] += x[n] % 4 == i ? 1.0 : 0.0;
        }
    }
    for (int i = 0; i < 4; ++i) counts[4 * threadIdx.x + i] = mine[i];
}
