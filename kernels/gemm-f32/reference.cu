/*---
[[launch]]
kernel = "reference_gemm"
grid = ["cdiv(N, 32)", "cdiv(M, 16)"]
block = [32, 4]
args = ["a", "b", "c", "c_scale", "M", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// The right answer: the sum of products in binary64, in the order of k. Beside it the sum of the
// products' magnitudes, to which rounding errors are proportional; below the smallest normal number of
// f32 the spacing, and so the rounding, is that number's.
// A thread takes four rows of a column, so that it reads and converts an element of b once for the four.
constexpr int ROWS = 4;

extern "C" __global__ void reference_gemm(const float* a, const float* b, double* c, double* c_scale,
                                          int M, int N, int K) {
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int first = (blockIdx.y * 4 + threadIdx.y) * ROWS;
    if (first >= M || column >= N) return;
    double sum[ROWS] = {};
    double magnitude[ROWS] = {};
    for (int k = 0; k < K; ++k) {
        const double right = double(b[size_t(k) * N + column]);
        for (int r = 0; r < ROWS; ++r) {
            const int row = min(first + r, M - 1);
            const double product = double(a[size_t(row) * K + k]) * right;
            sum[r] += product;
            magnitude[r] += fabs(product);
        }
    }
    for (int r = 0; r < ROWS && first + r < M; ++r) {
        const size_t at = size_t(first + r) * N + column;
        c[at] = sum[r];
        c_scale[at] = fmax(magnitude[r], 0x1p-126);
    }
}
