/*---
[[launch]]
kernel = "reference_product"
grid = ["cdiv(N, 32)", "M"]
block = [32]
args = ["a", "b", "c", "c_scale", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// One thread adds the products of one element from the first on.
extern "C" __global__ void reference_product(const float* a, const float* b, double* c, double* c_scale, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const size_t m = blockIdx.y;
    if (n >= N) return;
    double sum = 0.0;
    double size = 0.0;
    for (int k = 0; k < K; ++k) {
        const double product = double(a[m * K + k]) * double(b[size_t(k) * N + n]);
        sum += product;
        size += fabs(product);
    }
    c[m * N + n] = sum;
    c_scale[m * N + n] = fmax(size, 0x1p-126);
}
