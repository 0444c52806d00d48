/*---
[idea]
title = "eight pairs per thread, sixteen bytes an access"
hypothesis = """
A thread that turns one pair issues six loads and stores for 16 bytes. Eight neighbouring pairs need \
eight accesses for 128 bytes, so that address arithmetic and issue stop being the limit."""
gain = [1.0, 1.6]

[step]
phase = "memory"
sweep = ["THREADS"]

[[launch]]
kernel = "rope"
grid = ["cdiv(T * H * 8, THREADS)"]
block = ["THREADS"]
args = ["x", "cosine", "sine", "y", "T", "H"]

[tunables.THREADS]
value = 128
choices = [64, 128, 256]
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
    const size_t piece = size_t(blockIdx.x) * THREADS + threadIdx.x;
    if (piece >= size_t(T) * H * 8) return;
    const size_t head = piece / 8;
    const size_t low = head * 16 + piece % 8;
    const size_t angle = head / H * 64 + piece % 8 * 8;

    const Eight a = x[low];
    const Eight b = x[low + 8];
    const Angles c = load_angles(cosine + angle);
    const Angles s = load_angles(sine + angle);
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
