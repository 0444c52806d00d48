/*---
[idea]
title = "a warp per token, two reductions by shuffles"
hypothesis = """
With one thread per token a warp reads 32 sectors to use two bytes of each. The lanes of a warp that \
share a token read neighbouring logits, keep one share of the largest two each, and join them in five \
steps of shuffles. Every element of the result is written once."""
gain = [2.0, 10.0]

[step]
phase = "memory"
sweep = ["WARPS"]

[[launch]]
kernel = "gate"
grid = ["cdiv(T, WARPS)"]
block = ["32 * WARPS"]
args = ["logits", "weights", "T", "E"]

[tunables.WARPS]
value = 4
choices = [2, 4, 8]
---*/
// A logit and its expert are one integer that sorts like the logit, and among equal ones like the lower
// number: the two largest are then found by comparing integers.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

// The 16 bits of a logit become an unsigned number that sorts like it: a negative one is turned over, a
// positive one moved above all negative ones. Minus zero equals plus zero.
__device__ unsigned key(__half logit, int expert) {
    unsigned bits = __half_as_ushort(logit);
    if (bits == 0x8000) bits = 0;
    bits = bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
    return bits << 16 | (0xffff - expert);
}

__device__ int expert_of(unsigned key) { return 0xffff - (key & 0xffff); }

__device__ float logit_of(unsigned key) {
    const unsigned bits = key >> 16;
    const unsigned short half = bits & 0x8000 ? bits & 0x7fff : ~bits & 0xffff;
    return __half2float(__ushort_as_half(half));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gate(const __half* __restrict__ logits, __half* __restrict__ weights, int T, int E) {
    const int token = blockIdx.x * WARPS + threadIdx.x / 32;
    if (token >= T) return;
    const int lane = threadIdx.x % 32;
    const __half* from = logits + size_t(token) * E;
    __half* to = weights + size_t(token) * E;

    // No key of an expert is zero, so that zero stands for none.
    unsigned best = 0;
    unsigned second = 0;
    for (int e = lane; e < E; e += 32) {
        const unsigned mine = key(from[e], e);
        second = max(second, min(best, mine));
        best = max(best, mine);
    }
    for (int step = 16; step > 0; step /= 2) {
        const unsigned other_best = __shfl_xor_sync(ALL, best, step);
        const unsigned other_second = __shfl_xor_sync(ALL, second, step);
        second = max(max(second, other_second), min(best, other_best));
        best = max(best, other_best);
    }
    const float smaller = expf(logit_of(second) - logit_of(best));
    const float inverse = 1.0f / (1.0f + smaller);
    for (int e = lane; e < E; e += 32) {
        const float weight = e == expert_of(best) ? inverse : e == expert_of(second) ? smaller * inverse : 0.0f;
        to[e] = __float2half_rn(weight);
    }
}
