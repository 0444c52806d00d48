/*---
[idea]
title = "four pixels for eight filters in the registers of a thread"
hypothesis = """
With one pixel to a thread every product loads a tap from shared memory, or a part of one. Four \
neighbouring pixels need six inputs of a row for twelve products of a filter, and eight filters share \
them: 9 loads of inputs and 18 of taps, in pieces of up to 16 bytes, serve 288 products. The filters of a \
warp are the same, so its loads of taps are broadcasts. Bigger tiles are fewer, so more slices are needed."""
gain = [1.05, 1.6]

[step]
phase = "reuse"
sweep = ["CTAS_PER_SM", "CHANNELS"]

[[launch]]
kernel = "conv"
grid = ["cdiv(W, 16) * cdiv(H, 8)", "cdiv(F, 16)", "I * max(1, min(min(16, cdiv(C, CHANNELS)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, 16) * I)))"]
block = [64]
args = ["x", "k", "y", "part", "I", "C", "F", "H", "W"]

[[launch]]
kernel = "add_slices"
grid = ["cdiv(I * F * H * W, 64)"]
block = [64, "max(1, min(min(16, cdiv(C, CHANNELS)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, 16) * I)))"]
args = ["part", "y", "I", "F", "H", "W"]

[workspace.part]
dtype = "f32"
shape = ["max(1, min(min(16, cdiv(C, CHANNELS)), CTAS_PER_SM * SM_COUNT / (cdiv(W, 16) * cdiv(H, 8) * cdiv(F, 16) * I)))", "I", "F", "H", "W"]

[tunables.CHANNELS]
value = 4
choices = [2, 4, 8]
[tunables.CTAS_PER_SM]
value = 4
choices = [2, 4, 8]
---*/
constexpr int COLUMNS = 16;  // of a tile of pixels
constexpr int ROWS = 8;
constexpr int STRIP = 4;     // neighbouring pixels of a thread
constexpr int FILTERS = 16;  // of a block: eight for each of its two warps
constexpr int OWN = 8;
constexpr int THREADS = 64;
constexpr int MOST_SLICES = 16;

// Block (x, y, z): a tile of pixels for 16 filters of image z % I, and slice z / I of the channels; a warp
// covers the tile. If the slice is all channels, the block writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
         float* __restrict__ part, int I, int C, int F, int H, int W) {
    __shared__ __align__(16) float pixels[CHANNELS][ROWS + 2][COLUMNS + 4];
    __shared__ __align__(16) float taps[CHANNELS][9][FILTERS];
    const int across = (W + COLUMNS - 1) / COLUMNS;
    const int first_row = blockIdx.x / across * ROWS;
    const int first_column = blockIdx.x % across * COLUMNS;
    const int first_filter = blockIdx.y * FILTERS;
    const int own = threadIdx.x / 32 * OWN;
    const int row = threadIdx.x % 32 / 4;
    const int column = threadIdx.x % 4 * STRIP;

    const int slices = gridDim.z / I;
    const int slice = blockIdx.z / I;
    const int image = blockIdx.z % I;
    // Whole groups of channels; rounding up may leave the last slices empty, whose sums are zeros.
    const int length = ((C + CHANNELS - 1) / CHANNELS + slices - 1) / slices * CHANNELS;
    const int end = min((slice + 1) * length, C);

    float sum[OWN][STRIP] = {};
    for (int first = slice * length; first < end; first += CHANNELS) {
        __syncthreads();  // everyone has finished with the last channels
        constexpr int WIDE = COLUMNS + 4;
        constexpr int PLANE = (ROWS + 2) * WIDE;
        for (int i = threadIdx.x; i < CHANNELS * PLANE; i += THREADS) {
            const int c = first + i / PLANE;
            const int h = first_row + i % PLANE / WIDE - 1;
            const int w = first_column + i % WIDE - 1;
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
        float part_sum[OWN][STRIP] = {};  // of these channels, because long sums of f32 lose digits
        for (int c = 0; c < count; ++c) {
#pragma unroll
            for (int p = 0; p < 3; ++p) {
                float pixel[STRIP + 2];
                const float4 four = *reinterpret_cast<const float4*>(&pixels[c][row + p][column]);
                pixel[0] = four.x, pixel[1] = four.y, pixel[2] = four.z, pixel[3] = four.w;
                pixel[4] = pixels[c][row + p][column + 4];
                pixel[5] = pixels[c][row + p][column + 5];
#pragma unroll
                for (int q = 0; q < 3; ++q) {
#pragma unroll
                    for (int f = 0; f < OWN; f += 4) {
                        const float4 tap = *reinterpret_cast<const float4*>(&taps[c][3 * p + q][own + f]);
#pragma unroll
                        for (int s = 0; s < STRIP; ++s) {
                            part_sum[f][s] += pixel[s + q] * tap.x;
                            part_sum[f + 1][s] += pixel[s + q] * tap.y;
                            part_sum[f + 2][s] += pixel[s + q] * tap.z;
                            part_sum[f + 3][s] += pixel[s + q] * tap.w;
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int f = 0; f < OWN; ++f) {
#pragma unroll
            for (int s = 0; s < STRIP; ++s) sum[f][s] += part_sum[f][s];
        }
    }

    const int h = first_row + row;
    if (h >= H) return;
    float* const outputs = slices == 1 ? y : part + size_t(slice) * I * F * H * W;
#pragma unroll
    for (int f = 0; f < OWN; ++f) {
        if (first_filter + own + f >= F) break;
        float* to = outputs + ((size_t(image) * F + first_filter + own + f) * H + h) * W;
#pragma unroll
        for (int s = 0; s < STRIP; ++s) {
            const int w = first_column + column + s;
            if (w < W) to[w] = sum[f][s];
        }
    }
}

// Block = 64 outputs, with a row of threads for each slice; the first row adds the slices in order.
extern "C" __global__ void __launch_bounds__(64 * MOST_SLICES)
    add_slices(const float* __restrict__ part, float* __restrict__ y, int I, int F, int H, int W) {
    __shared__ float sums[MOST_SLICES][64];
    const int slices = blockDim.y;
    if (slices == 1) return;  // the output is already there
    const size_t count = size_t(I) * F * H * W;
    const size_t at = size_t(blockIdx.x) * 64 + threadIdx.x;
    if (at < count) sums[threadIdx.y][threadIdx.x] = part[threadIdx.y * count + at];
    __syncthreads();
    if (threadIdx.y > 0 || at >= count) return;
    float sum = sums[0][threadIdx.x];
    for (int s = 1; s < slices; ++s) sum += sums[s][threadIdx.x];
    y[at] = sum;
}
