/*---
[expect]
verdict = "uninit_dependent"

[[launch]]
kernel = "conv"
grid = ["cdiv(W, 8) * cdiv(H, 8)", "F", "I"]
block = [64]
args = ["x", "k", "y", "C", "F", "H", "W"]
---*/
// Wrong: the border of the tile is staged where the image has pixels, and is left as it was where it has
// none. A tile inside a large image hides it.
extern "C" __global__ void __launch_bounds__(64)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y, int C, int F, int H,
         int W) {
    __shared__ float pixels[10][10];
    const int across = (W + 7) / 8;
    const int first_row = blockIdx.x / across * 8;
    const int first_column = blockIdx.x % across * 8;
    const int row = threadIdx.x / 8;
    const int column = threadIdx.x % 8;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        __syncthreads();
        for (int i = threadIdx.x; i < 100; i += 64) {
            const int h = first_row + i / 10 - 1;
            const int w = first_column + i % 10 - 1;
            if (h >= 0 && h < H && w >= 0 && w < W) {
                pixels[i / 10][i % 10] = x[((size_t(blockIdx.z) * C + c) * H + h) * W + w];
            }
        }
        __syncthreads();
        for (int t = 0; t < 9; ++t) {
            sum += pixels[row + t / 3][column + t % 3] * k[(size_t(blockIdx.y) * C + c) * 9 + t];
        }
    }
    const int h = first_row + row;
    const int w = first_column + column;
    if (h < H && w < W) y[((size_t(blockIdx.z) * F + blockIdx.y) * H + h) * W + w] = sum;
}
