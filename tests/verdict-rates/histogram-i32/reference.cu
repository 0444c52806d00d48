/*---
[[launch]]
kernel = "reference_histogram"
grid = ["R"]
block = [64]
args = ["x", "counts", "C"]
---*/
// One thread counts the elements of one bin.
extern "C" __global__ void reference_histogram(const int* x, double* counts, int C) {
    double count = 0.0;
    for (int column = 0; column < C; ++column) {
        if ((x[size_t(blockIdx.x) * C + column] & 63) == threadIdx.x) count += 1.0;
    }
    counts[blockIdx.x * 64 + threadIdx.x] = count;
}
