/*---
[[launch]]
kernel = "mean_rows"
grid = ["cdiv(R, 32)"]
block = [32]
args = ["x", "mean", "R", "C"]
---*/
// One thread sums one row.
extern "C" __global__ void mean_rows(const float* __restrict__ x, float* __restrict__ mean, int R, int C) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= R) return;
    float sum = 0.0f;
    for (int column = 0; column < C; ++column) sum += x[size_t(row) * C + column];
    mean[row] = sum / C;
}
