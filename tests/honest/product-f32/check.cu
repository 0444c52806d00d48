/*---
[[launch]]
kernel = "check_gemm"
grid = ["N", "M"]
block = [32]
args = ["a", "b", "c", "c_scale", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// The second opinion: a warp per element of c. Each lane sums every 32nd product, and the lanes'
// sums are added in a tree, so the order of summation is another one than in reference.cu.
extern "C" __global__ void check_gemm(const float* a, const float* b, double* c, double* c_scale, int N,
                                      int K) {
    const size_t column = blockIdx.x;
    const size_t row = blockIdx.y;
    const int lane = threadIdx.x;
    __shared__ double sums[32];
    __shared__ double magnitudes[32];

    double sum = 0.0;
    double magnitude = 0.0;
    for (int k = lane; k < K; k += 32) {
        const double left = a[row * K + k];
        const double right = b[size_t(k) * N + column];
        sum = fma(left, right, sum);
        magnitude = fma(fabs(left), fabs(right), magnitude);
    }
    sums[lane] = sum;
    magnitudes[lane] = magnitude;
    for (int half = 16; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
            sums[lane] += sums[lane + half];
            magnitudes[lane] += magnitudes[lane + half];
        }
    }
    if (lane == 0) {
        c[row * N + column] = sums[0];
        c_scale[row * N + column] = fmax(magnitudes[0], 0x1p-126);  // as in reference.cu
    }
}
