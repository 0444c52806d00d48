/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "conv"
grid = ["cdiv(H * W, 64)", "F", "I"]
block = [64]
args = ["x", "k", "y", "C", "F", "H", "W"]
---*/
// Wrong: the taps of the next channel replace those that a slow warp may still multiply with.
extern "C" __global__ void __launch_bounds__(64)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y, int C, int F, int H,
         int W) {
    __shared__ float taps[9];
    const int at = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        if (threadIdx.x < 9) {
            taps[threadIdx.x] = k[(size_t(blockIdx.y) * C + c) * 9 + threadIdx.x];  // <- finding
        }
        __syncthreads();
        for (int t = 0; t < 9; ++t) {
            const int row = at / W + t / 3 - 1;
            const int column = at % W + t % 3 - 1;
            if (row < 0 || row >= H || column < 0 || column >= W) continue;
            sum += x[((size_t(blockIdx.z) * C + c) * H + row) * W + column] * taps[t];
        }
    }
    if (at < H * W) y[(size_t(blockIdx.z) * F + blockIdx.y) * H * W + at] = sum;
}
