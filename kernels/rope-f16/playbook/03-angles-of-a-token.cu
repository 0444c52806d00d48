/*---
[idea]
title = "keep the angles of a token for several heads"
hypothesis = """
All heads of a token are turned by the same angles, which are twice as wide as the elements: half of the \
loaded bytes are angles that the cache has already given to other threads. A thread that turns the same \
eight pairs of HEADS heads loads them once."""
gain = [1.0, 1.5]

[step]
phase = "memory"
sweep = ["HEADS", "THREADS"]

[[launch]]
kernel = "rope"
grid = ["cdiv(T * cdiv(H, HEADS) * 8, THREADS)"]
block = ["THREADS"]
args = ["x", "cosine", "sine", "y", "T", "H"]

[tunables.HEADS]
value = 4
choices = [2, 4, 8]
[tunables.THREADS]
value = 64
choices = [64, 128]
---*/
#include <cuda_fp16.h>

// Copied by one access of 16 bytes. An array of __half2 is copied element by element, by accesses of 4 bytes.
struct __align__(16) Eight {
    uint4 bits;
    __device__ __half2& pair(int i) { return reinterpret_cast<__half2*>(&bits)[i]; }
    __device__ __half2 pair(int i) const { return reinterpret_cast<const __half2*>(&bits)[i]; }
};

struct __align__(16) Angles {
    float of[8];
};

__device__ Angles load_angles(const float* from) {
    Angles angles;
    *reinterpret_cast<float4*>(angles.of) = *reinterpret_cast<const float4*>(from);
    *reinterpret_cast<float4*>(angles.of + 4) = *reinterpret_cast<const float4*>(from + 4);
    return angles;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const Eight* __restrict__ x, const float* __restrict__ cosine,
         const float* __restrict__ sine, Eight* __restrict__ y, int T, int H) {
    const int groups = (H + HEADS - 1) / HEADS;
    const size_t item = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (item >= size_t(T) * groups * 8) return;
    const int part = item % 8;
    const size_t token = item / 8 / groups;
    const int first_head = int(item / 8 % groups) * HEADS;

    const Angles c = load_angles(cosine + token * 64 + part * 8);
    const Angles s = load_angles(sine + token * 64 + part * 8);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        if (first_head + h >= H) break;
        const size_t low = (token * H + first_head + h) * 16 + part;
        const Eight a = x[low];
        const Eight b = x[low + 8];
        Eight turned_a;
        Eight turned_b;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 p = __half22float2(a.pair(i));
            const float2 q = __half22float2(b.pair(i));
            const int j = 2 * i;
            turned_a.pair(i) = __floats2half2_rn(p.x * c.of[j] - q.x * s.of[j],
                                                 p.y * c.of[j + 1] - q.y * s.of[j + 1]);
            turned_b.pair(i) = __floats2half2_rn(q.x * c.of[j] + p.x * s.of[j],
                                                 q.y * c.of[j + 1] + p.y * s.of[j + 1]);
        }
        y[low] = turned_a;
        y[low + 8] = turned_b;
    }
}
