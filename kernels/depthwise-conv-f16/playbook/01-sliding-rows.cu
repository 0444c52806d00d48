/*---
[idea]
title = "slide down a column with three rows in registers"
hypothesis = """
Neighbouring outputs share six of their nine inputs. A thread that walks down ROWS outputs of a column \
keeps the last two rows of three elements in registers and loads three elements an output instead of \
nine; the filter and the column's bounds are loaded and asked once, and the loads of all rows are under way \
together."""
gain = [1.2, 2.5]

[step]
phase = "reuse"
sweep = ["ROWS", "THREADS"]

[[launch]]
kernel = "conv"
grid = ["cdiv(I * C * cdiv(H, ROWS) * W, THREADS)"]
block = ["THREADS"]
args = ["x", "k", "y", "I", "C", "H", "W"]

[tunables.ROWS]
value = 7
choices = [4, 7, 14]
[tunables.THREADS]
value = 128
choices = [64, 128, 256]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const __half* __restrict__ x, const __half* __restrict__ k, __half* __restrict__ y, int I, int C,
         int H, int W) {
    const int strips = (H + ROWS - 1) / ROWS;
    const size_t item = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (item >= size_t(I) * C * strips * W) return;
    const int w = item % W;
    const int first = int(item / W % strips) * ROWS;
    const size_t plane = item / W / strips;
    const __half* from = x + plane * H * W + w;
    __half* to = y + plane * H * W + w;
    const bool left = w > 0;
    const bool right = w + 1 < W;

    float filter[3][3];
#pragma unroll
    for (int i = 0; i < 9; ++i) filter[i / 3][i % 3] = __half2float(k[plane % C * 9 + i]);

    // Three elements of each row from column w - 1 on. Addresses outside the plane are moved to its edge, so that no
    // load is behind a branch and all of them are under way together.
    __half loaded[ROWS + 2][3];
#pragma unroll
    for (int i = 0; i < ROWS + 2; ++i) {
        const __half* start = from + size_t(min(max(first + i - 1, 0), H - 1)) * W;
        loaded[i][0] = start[left ? -1 : 0];
        loaded[i][1] = start[0];
        loaded[i][2] = start[right ? 1 : 0];
    }
    // What lies outside the image counts as zeros.
    float rows[3][3];
    const auto take = [&](int i) {
        const bool inside = first + i - 1 >= 0 && first + i - 1 < H;
        float(&row)[3] = rows[i % 3];
        row[0] = inside && left ? __half2float(loaded[i][0]) : 0.0f;
        row[1] = inside ? __half2float(loaded[i][1]) : 0.0f;
        row[2] = inside && right ? __half2float(loaded[i][2]) : 0.0f;
    };

    take(0);
    take(1);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        take(i + 2);
        float sum = 0.0f;
#pragma unroll
        for (int p = 0; p < 3; ++p) {
#pragma unroll
            for (int q = 0; q < 3; ++q) sum += rows[(i + p) % 3][q] * filter[p][q];
        }
        if (first + i < H) to[size_t(first + i) * W] = __float2half_rn(sum);
    }
}
