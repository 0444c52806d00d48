/*---
[idea]
title = "a tile of pixels with its border in shared memory, several filters to a thread"
hypothesis = """
Neighbouring outputs share eight of nine inputs, and all filters read the same inputs; the baseline loads \
both factors of every product and tests the bounds of each. A block stages a tile with a border of one \
pixel, CHANNELS channels at a time, with zeros where the image ends. A thread computes one pixel for \
FILTERS filters: nine inputs in registers serve nine FILTERS products, and no bounds are left to test."""
gain = [1.5, 4.0]

[step]
phase = "reuse"
sweep = ["FILTERS"]

[[launch]]
kernel = "conv"
grid = ["cdiv(W, 16) * cdiv(H, 8)", "cdiv(F, FILTERS)", "I"]
block = [128]
args = ["x", "k", "y", "C", "F", "H", "W"]

[tunables.FILTERS]
value = 4
choices = [2, 4, 8]
---*/
constexpr int COLUMNS = 16;  // of a tile, one for each thread
constexpr int ROWS = 8;
constexpr int CHANNELS = 4;  // staged at a time
constexpr int THREADS = COLUMNS * ROWS;

// Block (x, y, z): a tile of pixels for FILTERS filters of image z.
extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y, int C, int F, int H,
         int W) {
    __shared__ float pixels[CHANNELS][ROWS + 2][COLUMNS + 2];
    __shared__ float taps[CHANNELS][9][FILTERS];
    const int across = (W + COLUMNS - 1) / COLUMNS;
    const int first_row = blockIdx.x / across * ROWS;
    const int first_column = blockIdx.x % across * COLUMNS;
    const int first_filter = blockIdx.y * FILTERS;
    const int row = threadIdx.x / COLUMNS;
    const int column = threadIdx.x % COLUMNS;

    float sum[FILTERS] = {};
    for (int first = 0; first < C; first += CHANNELS) {
        __syncthreads();  // everyone has finished with the last channels
        constexpr int PLANE = (ROWS + 2) * (COLUMNS + 2);
        for (int i = threadIdx.x; i < CHANNELS * PLANE; i += THREADS) {
            const int c = first + i / PLANE;
            const int h = first_row + i % PLANE / (COLUMNS + 2) - 1;
            const int w = first_column + i % (COLUMNS + 2) - 1;
            const bool exists = c < C && h >= 0 && h < H && w >= 0 && w < W;
            (&pixels[0][0][0])[i] = exists ? x[((size_t(blockIdx.z) * C + c) * H + h) * W + w] : 0.0f;
        }
        for (int i = threadIdx.x; i < CHANNELS * 9 * FILTERS; i += THREADS) {
            // The taps of a filter lie together in memory, and those of a place together in the tile.
            const int f = first_filter + i / (CHANNELS * 9);
            const int tap = i % (CHANNELS * 9);
            const bool exists = f < F && first + tap / 9 < C;
            taps[tap / 9][tap % 9][i / (CHANNELS * 9)] =
                exists ? k[(size_t(f) * C + first) * 9 + tap] : 0.0f;
        }
        __syncthreads();
        const int count = min(CHANNELS, C - first);
        float part[FILTERS] = {};  // of these channels, because long sums of f32 lose digits
        for (int c = 0; c < count; ++c) {
#pragma unroll
            for (int p = 0; p < 3; ++p) {
#pragma unroll
                for (int q = 0; q < 3; ++q) {
                    const float pixel = pixels[c][row + p][column + q];
#pragma unroll
                    for (int f = 0; f < FILTERS; ++f) part[f] += pixel * taps[c][3 * p + q][f];
                }
            }
        }
#pragma unroll
        for (int f = 0; f < FILTERS; ++f) sum[f] += part[f];
    }

    const int h = first_row + row;
    const int w = first_column + column;
    if (h >= H || w >= W) return;
#pragma unroll
    for (int f = 0; f < FILTERS; ++f) {
        if (first_filter + f < F) y[((size_t(blockIdx.z) * F + first_filter + f) * H + h) * W + w] = sum[f];
    }
}
