/*---
[idea]
title = "as many lanes to a token as it has experts"
hypothesis = """
With 16 experts half of a warp has nothing to read. Groups of LANES lanes, a power of two that the number \
of experts nearly fills, give a warp several tokens, which lie next to each other in memory: a warp then \
reads and writes whole lines whatever the number of experts."""
gain = [1.0, 2.0]

[step]
phase = "memory"
sweep = ["LANES"]

[[launch]]
kernel = "gate"
grid = ["cdiv(T, 128 / LANES)"]
block = [128]
args = ["logits", "weights", "T", "E"]

[tunables.LANES]
value = 16
choices = [4, 8, 16, 32]
---*/
// As in step 01, with LANES lanes to a token instead of 32.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr int TOKENS = 128 / LANES;  // of a block

__device__ unsigned key(__half logit, int expert) {
    unsigned bits = __half_as_ushort(logit);
    if (bits == 0x8000) bits = 0;  // minus zero equals plus zero
    bits = bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
    return bits << 16 | (0xffff - expert);
}

__device__ int expert_of(unsigned key) { return 0xffff - (key & 0xffff); }

__device__ float logit_of(unsigned key) {
    const unsigned bits = key >> 16;
    const unsigned short half = bits & 0x8000 ? bits & 0x7fff : ~bits & 0xffff;
    return __half2float(__ushort_as_half(half));
}

extern "C" __global__ void __launch_bounds__(128)
    gate(const __half* __restrict__ logits, __half* __restrict__ weights, int T, int E) {
    const int token = blockIdx.x * TOKENS + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    // Groups without a token follow the last one, for the shuffles' sake, and write nothing.
    const size_t first = size_t(min(token, T - 1)) * E;

    unsigned best = 0;
    unsigned second = 0;
    for (int e = lane; e < E; e += LANES) {
        const unsigned mine = key(logits[first + e], e);
        second = max(second, min(best, mine));
        best = max(best, mine);
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
        const unsigned other_best = __shfl_xor_sync(ALL, best, step);
        const unsigned other_second = __shfl_xor_sync(ALL, second, step);
        second = max(max(second, other_second), min(best, other_best));
        best = max(best, other_best);
    }
    if (token >= T) return;
    const float smaller = expf(logit_of(second) - logit_of(best));
    const float inverse = 1.0f / (1.0f + smaller);
    for (int e = lane; e < E; e += LANES) {
        const float weight =
            e == expert_of(best) ? inverse : e == expert_of(second) ? smaller * inverse : 0.0f;
        weights[first + e] = __float2half_rn(weight);
    }
}
