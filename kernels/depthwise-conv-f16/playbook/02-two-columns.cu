/*---
[idea]
title = "two columns per thread"
hypothesis = """
A thread of the sliding kernel loads three elements for one output of a row. Two neighbouring columns \
need four for two, a third less, in one 4-byte access and two of 2 bytes where a row has an even length, \
and their results leave in one store."""
gain = [1.0, 1.6]

[step]
phase = "reuse"
sweep = ["ROWS", "THREADS"]

[[launch]]
kernel = "conv"
grid = ["cdiv(I * C * cdiv(H, ROWS) * cdiv(W, 2), THREADS)"]
block = ["THREADS"]
args = ["x", "k", "y", "I", "C", "H", "W"]

[tunables.ROWS]
value = 7
choices = [4, 7, 14]
[tunables.THREADS]
value = 64
choices = [64, 128]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS)
    conv(const __half* __restrict__ x, const __half* __restrict__ k, __half* __restrict__ y, int I, int C,
         int H, int W) {
    const int strips = (H + ROWS - 1) / ROWS;
    const int pairs = (W + 1) / 2;
    const size_t item = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (item >= size_t(I) * C * strips * pairs) return;
    const int w = int(item % pairs) * 2;
    const int first = int(item / pairs % strips) * ROWS;
    const size_t plane = item / pairs / strips;
    const __half* from = x + plane * H * W + w;
    __half* to = y + plane * H * W + w;
    // With an even W every pair begins on a 4-byte boundary and has its second column.
    const bool even = W % 2 == 0;
    const bool second = w + 1 < W;
    const bool left = w > 0;
    const bool right = w + 2 < W;

    float filter[3][3];
#pragma unroll
    for (int i = 0; i < 9; ++i) filter[i / 3][i % 3] = __half2float(k[plane % C * 9 + i]);

    // Four elements of row h from column w - 1 on; those outside the image are zeros.
    const auto load = [&](int h, float (&row)[4]) {
        const bool inside = h >= 0 && h < H;
        const __half* start = from + ptrdiff_t(h) * W;
        row[0] = inside && left ? __half2float(start[-1]) : 0.0f;
        if (even) {
            const float2 two = inside ? __half22float2(*reinterpret_cast<const __half2*>(start))
                                      : make_float2(0.0f, 0.0f);
            row[1] = two.x;
            row[2] = two.y;
        } else {
            row[1] = inside ? __half2float(start[0]) : 0.0f;
            row[2] = inside && second ? __half2float(start[1]) : 0.0f;
        }
        row[3] = inside && right ? __half2float(start[2]) : 0.0f;
    };

    float rows[3][4];
    load(first - 1, rows[0]);
    load(first, rows[1]);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int h = first + i;
        if (h >= H) break;
        load(h + 1, rows[(i + 2) % 3]);
        float sum[2] = {};
#pragma unroll
        for (int p = 0; p < 3; ++p) {
#pragma unroll
            for (int q = 0; q < 3; ++q) {
                sum[0] += rows[(i + p) % 3][q] * filter[p][q];
                sum[1] += rows[(i + p) % 3][q + 1] * filter[p][q];
            }
        }
        __half* out = to + size_t(h) * W;
        if (even) {
            *reinterpret_cast<__half2*>(out) = __floats2half2_rn(sum[0], sum[1]);
        } else {
            out[0] = __float2half_rn(sum[0]);
            if (second) out[1] = __float2half_rn(sum[1]);
        }
    }
}
