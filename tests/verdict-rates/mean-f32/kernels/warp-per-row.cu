/*---
[[launch]]
kernel = "mean_rows"
grid = ["cdiv(R, WARPS)"]
block = ["WARPS * 32"]
args = ["x", "mean", "R", "C"]

[tunables.WARPS]
value = 4
choices = [1, 2, 4, 8]
---*/
// One warp sums one row; its lanes add their sums by shuffles.
extern "C" __global__ void mean_rows(const float* x, float* mean, int R, int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = lane; column < C; column += 32) {
        sum += x[size_t(row) * C + column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) {
        /*@out*/ mean[row] = sum / C;
    }
}
