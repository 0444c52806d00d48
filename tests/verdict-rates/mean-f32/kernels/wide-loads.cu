/*---
[[launch]]
kernel = "mean_rows"
grid = ["cdiv(R, WARPS)"]
block = ["WARPS * 32"]
args = ["x", "mean", "R", "C"]

[tunables.WARPS]
value = 2
choices = [1, 2, 4]
---*/
// One warp sums one row with loads of 16 bytes between an unaligned head and tail.
extern "C" __global__ void mean_rows(const float* x, float* mean, int R, int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    const float* values = x + size_t(row) * C;
    const int misaligned = int(reinterpret_cast<size_t>(values) / 4 % 4);
    const int head = min(C, (4 - misaligned) % 4);
    const int quads = (C - head) / 4;
    const float4* wide = reinterpret_cast<const float4*>(values + head);
    /*@wide*/ float sum = 0.0f;
    if (lane < head) {
        sum += values[lane];
    }
    /*@any*/ for (int quad = lane; quad < quads; quad += 32) {
        const float4 four = wide[quad];
        sum += (four.x + four.y) + (four.z + four.w);
    }
    /*@any*/ for (int column = head + 4 * quads + lane; column < C; column += 32) {
        sum += values[column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) {
        /*@out*/ mean[row] = sum / C;
    }
}
