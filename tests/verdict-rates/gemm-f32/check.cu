/*---
[[launch]]
kernel = "check_product"
grid = ["M", "N"]
block = [1]
args = ["a", "b", "c", "c_scale", "N", "K"]

[workspace.c_scale]
dtype = "f64"
shape = ["M", "N"]
---*/
// One block adds the products of one element in two halves, each from its last product back.
extern "C" __global__ void check_product(const float* a, const float* b, double* c, double* c_scale, int N, int K) {
    const size_t m = blockIdx.x;
    const size_t n = blockIdx.y;
    double sum[2] = {0.0, 0.0};
    double size[2] = {0.0, 0.0};
    for (int k = K - 1; k >= 0; --k) {
        const int half = k < K / 2;
        const double product = double(b[k * size_t(N) + n]) * double(a[m * K + k]);
        sum[half] += product;
        size[half] += fabs(product);
    }
    c[m * N + n] = sum[0] + sum[1];
    c_scale[m * N + n] = fmax(size[0] + size[1], 0x1p-126);
}
