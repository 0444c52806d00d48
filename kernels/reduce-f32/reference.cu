/*---
[[launch]]
kernel = "reference_reduce"
grid = ["R"]
block = [128]
args = ["x", "y", "y_scale", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R"]
---*/
// The right answer: the sum in binary64, and beside it the sum of the magnitudes, to which rounding
// errors are proportional. Each thread adds a strided share and one thread adds the shares in order.
constexpr int THREADS = 128;

extern "C" __global__ void reference_reduce(const float* x, double* y, double* y_scale, int C) {
    __shared__ double sums[THREADS];
    __shared__ double magnitudes[THREADS];
    const float* row = x + size_t(blockIdx.x) * C;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = threadIdx.x; c < C; c += THREADS) {
        sum += double(row[c]);
        magnitude += fabs(double(row[c]));
    }
    sums[threadIdx.x] = sum;
    magnitudes[threadIdx.x] = magnitude;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < THREADS; ++t) {
        sum += sums[t];
        magnitude += magnitudes[t];
    }
    y[blockIdx.x] = sum;
    // Below the smallest normal number of f32 the spacing is that number's.
    y_scale[blockIdx.x] = fmax(magnitude, 0x1p-126);
}
