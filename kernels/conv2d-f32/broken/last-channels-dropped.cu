/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "conv"
grid = ["cdiv(H * W, 64)", "F", "I"]
block = [64]
args = ["x", "k", "y", "C", "F", "H", "W"]
---*/
// Wrong: channels are taken four at a time, and what is left of them is forgotten. Layers with a multiple of
// four channels hide it.
extern "C" __global__ void __launch_bounds__(64)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y, int C, int F, int H,
         int W) {
    const int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= H * W) return;
    float sum = 0.0f;
    for (int first = 0; first + 4 <= C; first += 4) {
        for (int c = first; c < first + 4; ++c) {
            for (int t = 0; t < 9; ++t) {
                const int row = at / W + t / 3 - 1;
                const int column = at % W + t % 3 - 1;
                if (row < 0 || row >= H || column < 0 || column >= W) continue;
                sum += x[((size_t(blockIdx.z) * C + c) * H + row) * W + column] *
                       k[(size_t(blockIdx.y) * C + c) * 9 + t];
            }
        }
    }
    y[(size_t(blockIdx.z) * F + blockIdx.y) * H * W + at] = sum;
}
