/*---
[[launch]]
kernel = "mean_rows"
grid = ["cdiv(R, 4)"]
block = [128]
args = ["x", "mean", "R", "C"]
---*/
// One warp sums one row: neighbouring lanes read neighbouring elements and add their sums by shuffles.
extern "C" __global__ void mean_rows(const float* __restrict__ x, float* __restrict__ mean, int R, int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= R) return;
    float sum = 0.0f;
    for (int column = lane; column < C; column += 32) sum += x[size_t(row) * C + column];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) mean[row] = sum / C;
}
