/*---
[[launch]]
kernel = "reference_softmax"
grid = ["R"]
block = [128]
args = ["x", "y", "y_scale", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R", "C"]
---*/
// The right answer, in binary64: the row's maximum, its mass, the quotients. Every thread of a block
// computes maximum and mass of a strided share of the row, and one thread joins the shares in order.
constexpr int THREADS = 128;

extern "C" __global__ void reference_softmax(const float* x, double* y, double* y_scale, int C) {
    const size_t first = size_t(blockIdx.x) * C;
    const int thread = threadIdx.x;
    __shared__ double share[THREADS];
    __shared__ double joined;

    double largest = -INFINITY;
    for (int c = thread; c < C; c += THREADS) largest = fmax(largest, double(x[first + c]));
    share[thread] = largest;
    __syncthreads();
    if (thread == 0) {
        for (int t = 1; t < THREADS; ++t) largest = fmax(largest, share[t]);
        joined = largest;
    }
    __syncthreads();
    largest = joined;

    double mass = 0.0;
    for (int c = thread; c < C; c += THREADS) {
        const double e = exp(x[first + c] - largest);
        y[first + c] = e;
        mass += e;
    }
    share[thread] = mass;
    __syncthreads();
    if (thread == 0) {
        for (int t = 1; t < THREADS; ++t) mass += share[t];
        joined = mass;
    }
    __syncthreads();
    mass = joined;

    for (int c = thread; c < C; c += THREADS) {
        const double quotient = y[first + c] / mass;
        y[first + c] = quotient;
        // The rounding of x - largest grows with the difference and becomes a relative error of the
        // exponential. Below the smallest normal number of f32 the spacing is that number's.
        y_scale[first + c] = fmax(quotient * (1.0 + fabs(x[first + c] - largest)), 0x1p-126);
    }
}
