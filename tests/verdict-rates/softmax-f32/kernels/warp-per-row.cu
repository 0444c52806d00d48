/*---
[[launch]]
kernel = "softmax_rows"
grid = ["cdiv(R, WARPS)"]
block = ["WARPS * 32"]
args = ["x", "y", "R", "C"]

[tunables.WARPS]
value = 4
choices = [1, 2, 4]
---*/
// One warp computes one row: maximum, then mass, both by shuffles.
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    float top = -INFINITY;
    /*@any*/ for (int column = lane; column < C; column += 32) {
        top = fmaxf(top, x[size_t(row) * C + column]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, distance));
    }
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = lane; column < C; column += 32) {
        sum += expf(x[size_t(row) * C + column] - top);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    /*@any*/ for (int column = lane; column < C; column += 32) {
        /*@out*/ y[size_t(row) * C + column] = expf(x[size_t(row) * C + column] - top) / sum;
    }
}
