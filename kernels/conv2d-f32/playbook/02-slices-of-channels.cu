/*---
[idea]
title = "cut the channels into slices where the pixels are few"
hypothesis = """
Both layers have few tiles of pixels and filters for 58 multiprocessors, and each block walks over all \
channels alone. The sum over the channels can be cut as well: each slice leaves its partial sums in a \
workspace, and a second launch adds them in order. The cost is a write and a read of the outputs for each \
slice, so there are only as many as fill the device."""
gain = [1.5, 6.0]

[step]
phase = "reuse"
sweep = ["CTAS_PER_SM"]

[[launch]]
kernel = "conv"
grid = ["cdiv(W, 16) * cdiv(H, 8)", "cdiv(F, FILTERS)", "I * max(1, min(min(16, cdiv(C, 4)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, FILTERS) * I)))"]
block = [128]
args = ["x", "k", "y", "parts", "I", "C", "F", "H", "W"]

[[launch]]
kernel = "add_slices"
grid = ["cdiv(I * F * H * W, 64)"]
block = [64, "max(1, min(min(16, cdiv(C, 4)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, FILTERS) * I)))"]
args = ["parts", "y", "I", "F", "H", "W"]

[workspace.parts]
dtype = "f32"
shape = ["max(1, min(min(16, cdiv(C, 4)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, FILTERS) * I)))", "I", "F", "H", "W"]

[tunables.CTAS_PER_SM]
value = 4
choices = [2, 4, 8]
[tunables.FILTERS]
value = 4
choices = [2, 4, 8]
---*/
constexpr int COLUMNS = 16;  // of a tile, one for each thread
constexpr int ROWS = 8;
constexpr int CHANNELS = 4;  // staged at a time
constexpr int THREADS = COLUMNS * ROWS;
constexpr int MOST_SLICES = 16;

// Block (x, y, z): a tile of pixels for FILTERS filters of image z % I, and slice z / I of the channels. If
// the slice is all channels, the block writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
         float* __restrict__ parts, int I, int C, int F, int H, int W) {
    __shared__ float pixels[CHANNELS][ROWS + 2][COLUMNS + 2];
    __shared__ float taps[CHANNELS][9][FILTERS];
    const int across = (W + COLUMNS - 1) / COLUMNS;
    const int first_row = blockIdx.x / across * ROWS;
    const int first_column = blockIdx.x % across * COLUMNS;
    const int first_filter = blockIdx.y * FILTERS;
    const int row = threadIdx.x / COLUMNS;
    const int column = threadIdx.x % COLUMNS;

    const int slices = gridDim.z / I;
    const int slice = blockIdx.z / I;
    const int image = blockIdx.z % I;
    // Whole groups of channels; rounding up may leave the last slices empty, whose sums are zeros.
    const int length = ((C + CHANNELS - 1) / CHANNELS + slices - 1) / slices * CHANNELS;
    const int end = min((slice + 1) * length, C);

    float sum[FILTERS] = {};
    for (int first = slice * length; first < end; first += CHANNELS) {
        __syncthreads();  // everyone has finished with the last channels
        constexpr int PLANE = (ROWS + 2) * (COLUMNS + 2);
        for (int i = threadIdx.x; i < CHANNELS * PLANE; i += THREADS) {
            const int c = first + i / PLANE;
            const int h = first_row + i % PLANE / (COLUMNS + 2) - 1;
            const int w = first_column + i % (COLUMNS + 2) - 1;
            const bool exists = c < end && h >= 0 && h < H && w >= 0 && w < W;
            (&pixels[0][0][0])[i] = exists ? x[((size_t(image) * C + c) * H + h) * W + w] : 0.0f;
        }
        for (int i = threadIdx.x; i < CHANNELS * 9 * FILTERS; i += THREADS) {
            // The taps of a filter lie together in memory, and those of a place together in the tile.
            const int f = first_filter + i / (CHANNELS * 9);
            const int tap = i % (CHANNELS * 9);
            const bool exists = f < F && first + tap / 9 < end;
            taps[tap / 9][tap % 9][i / (CHANNELS * 9)] =
                exists ? k[(size_t(f) * C + first) * 9 + tap] : 0.0f;
        }
        __syncthreads();
        const int count = min(CHANNELS, end - first);
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
    float* const outputs = slices == 1 ? y : parts + size_t(slice) * I * F * H * W;
#pragma unroll
    for (int f = 0; f < FILTERS; ++f) {
        if (first_filter + f >= F) break;
        outputs[((size_t(image) * F + first_filter + f) * H + h) * W + w] = sum[f];
    }
}

// Block = 64 outputs, with a row of threads for each slice; the first row adds the slices in order.
extern "C" __global__ void __launch_bounds__(64 * MOST_SLICES)
    add_slices(const float* __restrict__ parts, float* __restrict__ y, int I, int F, int H, int W) {
    __shared__ float sums[MOST_SLICES][64];
    const int slices = blockDim.y;
    if (slices == 1) return;  // the output is already there
    const size_t count = size_t(I) * F * H * W;
    const size_t at = size_t(blockIdx.x) * 64 + threadIdx.x;
    if (at < count) sums[threadIdx.y][threadIdx.x] = parts[threadIdx.y * count + at];
    __syncthreads();
    if (threadIdx.y > 0 || at >= count) return;
    float sum = sums[0][threadIdx.x];
    for (int s = 1; s < slices; ++s) sum += sums[s][threadIdx.x];
    y[at] = sum;
}
