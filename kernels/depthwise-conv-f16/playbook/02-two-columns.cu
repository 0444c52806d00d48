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

    // Four elements of each row from column w - 1 on. Addresses outside the plane are moved to its edge, so that no
    // load is behind a branch of its own and all of them are under way together.
    __half loaded[ROWS + 2][4];
    if (even) {
#pragma unroll
        for (int i = 0; i < ROWS + 2; ++i) {
            const __half* start = from + size_t(min(max(first + i - 1, 0), H - 1)) * W;
            const __half2 two = *reinterpret_cast<const __half2*>(start);
            loaded[i][0] = start[left ? -1 : 0];
            loaded[i][1] = __low2half(two);
            loaded[i][2] = __high2half(two);
            loaded[i][3] = start[right ? 2 : 0];
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROWS + 2; ++i) {
            const __half* start = from + size_t(min(max(first + i - 1, 0), H - 1)) * W;
            loaded[i][0] = start[left ? -1 : 0];
            loaded[i][1] = start[0];
            loaded[i][2] = start[second ? 1 : 0];
            loaded[i][3] = start[right ? 2 : 0];
        }
    }
    // What lies outside the image counts as zeros.
    float rows[3][4];
    const auto take = [&](int i) {
        const bool inside = first + i - 1 >= 0 && first + i - 1 < H;
        float(&row)[4] = rows[i % 3];
        row[0] = inside && left ? __half2float(loaded[i][0]) : 0.0f;
        row[1] = inside ? __half2float(loaded[i][1]) : 0.0f;
        row[2] = inside && second ? __half2float(loaded[i][2]) : 0.0f;
        row[3] = inside && right ? __half2float(loaded[i][3]) : 0.0f;
    };

    take(0);
    take(1);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        take(i + 2);
        float sum[2] = {};
#pragma unroll
        for (int p = 0; p < 3; ++p) {
#pragma unroll
            for (int q = 0; q < 3; ++q) {
                sum[0] += rows[(i + p) % 3][q] * filter[p][q];
                sum[1] += rows[(i + p) % 3][q + 1] * filter[p][q];
            }
        }
        if (first + i >= H) continue;
        __half* out = to + size_t(first + i) * W;
        if (even) {
            *reinterpret_cast<__half2*>(out) = __floats2half2_rn(sum[0], sum[1]);
        } else {
            out[0] = __float2half_rn(sum[0]);
            if (second) out[1] = __float2half_rn(sum[1]);
        }
    }
}
