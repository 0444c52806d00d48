/*---
[idea]
title = "several threads per row"
hypothesis = """
A thread that walks over all keys of its row by itself is one long chain, and 64 rows to a block leave \
multiprocessors with one warp or none. Two threads share the keys of a row, every second key to each, so \
that the chains are half as long and the grid has twice as many blocks. Each thread keeps a maximum, a mass \
and sums of its own, so that nothing is exchanged inside the loop; shuffles join them once, at the end."""
gain = [1.1, 2.0]

[step]
phase = "parallelism"
sweep = ["CHUNK"]

[[launch]]
kernel = "attention"
grid = ["cdiv(S, 32)", "H", "B"]
block = [64]
args = ["q", "k", "v", "o", "S", "scale"]

[tunables.CHUNK]
value = 8
choices = [4, 8, 16]
---*/
// Dividing the channels of a row instead was tried and is slower: every lane then computes the row's exponentials, and
// each score costs shuffles. More lanes to a row are modelled as faster, by a quarter with four and by a third with eight.
// But a run goes on only from its fastest kernel, and without split keys no grid reaches the four blocks per
// multiprocessor that open the next phase. So the step leaves the rest of the gain to the next one.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int THREADS = 64;
constexpr int LANES = 2;                  // threads of a row
constexpr int ROWS = THREADS / LANES;
constexpr int ROWS_OF_WARP = 32 / LANES;  // neighbouring threads have different rows and the same keys
constexpr int BLOCK_N = CHUNK * LANES;    // keys of a tile; a thread holds the scores of CHUNK at once
constexpr int STRIDE = D + 4;             // padded: the keys of different lanes lie in different banks
constexpr int VECTOR = 8;                 // f16 elements in 16 bytes
constexpr int PARTS = BLOCK_N * D / VECTOR / THREADS;  // of a tile, for each thread
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

// Loads this thread's share of `count` rows from `from` on; what a tile lacks becomes zero. Nothing
// waits for the loads before `put`, so that all of them are under way together.
__device__ void fetch(uint4 (&parts)[PARTS], const __half* from, int count) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        parts[i] = make_uint4(0, 0, 0, 0);
        if (at / D < count) parts[i] = *reinterpret_cast<const uint4*>(from + at);
    }
}

__device__ void unpack(float4 (&to)[2], const uint4& part) {
    const __half2* pair = reinterpret_cast<const __half2*>(&part);
    const float2 a = __half22float2(pair[0]), b = __half22float2(pair[1]);
    const float2 c = __half22float2(pair[2]), e = __half22float2(pair[3]);
    to[0] = make_float4(a.x, a.y, b.x, b.y);
    to[1] = make_float4(c.x, c.y, e.x, e.y);
}

// Stores what `fetch` loaded to a tile of f32.
__device__ void put(float (*tile)[STRIDE], const uint4 (&parts)[PARTS]) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        float4 part[2];
        unpack(part, parts[i]);
        float4* to = reinterpret_cast<float4*>(&tile[at / D][at % D]);
        to[0] = part[0];
        to[1] = part[1];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int S, float scale) {
    __shared__ __align__(16) float keys[BLOCK_N][STRIDE];
    __shared__ __align__(16) float values[BLOCK_N][STRIDE];

    const size_t head = size_t(blockIdx.z * gridDim.y + blockIdx.y) * S * D;
    const int row = blockIdx.x * ROWS + threadIdx.x / 32 * ROWS_OF_WARP + threadIdx.x % ROWS_OF_WARP;
    const int lane = threadIdx.x % 32 / ROWS_OF_WARP;
    // Threads without a row of their own help to stage and compute a copy of the last row.
    const __half* own = q + head + size_t(min(row, S - 1)) * D;

    // Scores are kept in units of log2, so that a weight is a bare exp2.
    float query[D];
    float total[D];
#pragma unroll
    for (int d = 0; d < D; d += VECTOR) {
        float4 part[2];
        unpack(part, *reinterpret_cast<const uint4*>(own + d));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            query[d + 4 * i] = part[i].x * (scale * LOG2_E);
            query[d + 4 * i + 1] = part[i].y * (scale * LOG2_E);
            query[d + 4 * i + 2] = part[i].z * (scale * LOG2_E);
            query[d + 4 * i + 3] = part[i].w * (scale * LOG2_E);
        }
    }
#pragma unroll
    for (int d = 0; d < D; ++d) total[d] = 0.0f;

    float largest = -INFINITY;
    float mass = 0.0f;
    for (int first = 0; first < S; first += BLOCK_N) {
        const int count = min(BLOCK_N, S - first);
        uint4 key_parts[PARTS];
        uint4 value_parts[PARTS];
        fetch(key_parts, k + head + size_t(first) * D, count);
        fetch(value_parts, v + head + size_t(first) * D, count);
        __syncthreads();
        put(keys, key_parts);
        put(values, value_parts);
        __syncthreads();
        // The lane's keys are lane, lane + LANES, and so on.
        if (lane >= count) continue;

        float score[CHUNK] = {};
#pragma unroll
        for (int d = 0; d < D; d += 4) {
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) {
                const float4 key = *reinterpret_cast<const float4*>(&keys[lane + j * LANES][d]);
                score[j] += query[d] * key.x + query[d + 1] * key.y + query[d + 2] * key.z +
                            query[d + 3] * key.w;
            }
        }

        float grown = largest;
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
            if (lane + j * LANES >= count) score[j] = -INFINITY;
            grown = fmaxf(grown, score[j]);
        }
        // What was summed so far is relative to the old maximum.
        const float keep = exp2f(largest - grown);
        largest = grown;
        mass *= keep;
#pragma unroll
        for (int d = 0; d < D; ++d) total[d] *= keep;

#pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
            const float weight = exp2f(score[j] - largest);
            mass += weight;
#pragma unroll
            for (int d = 0; d < D; d += 4) {
                const float4 value = *reinterpret_cast<const float4*>(&values[lane + j * LANES][d]);
                total[d] += weight * value.x;
                total[d + 1] += weight * value.y;
                total[d + 2] += weight * value.z;
                total[d + 3] += weight * value.w;
            }
        }
    }

    // The lanes of a row come to one scale. A lane that had no key has a mass of zero.
    float top = largest;
#pragma unroll
    for (int step = ROWS_OF_WARP; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, step));
    const float factor = mass == 0.0f ? 0.0f : exp2f(largest - top);
    mass *= factor;
#pragma unroll
    for (int step = ROWS_OF_WARP; step < 32; step *= 2) mass += __shfl_xor_sync(ALL, mass, step);
#pragma unroll
    for (int d = 0; d < D; ++d) total[d] *= factor;
    // Of the channels that two lanes both have sums of, each keeps one half and gives away the other.
    int first_channel = 0;
#pragma unroll
    for (int step = ROWS_OF_WARP, half = D / 2; step < 32; step *= 2, half /= 2) {
        const bool upper = threadIdx.x % 32 & step;
#pragma unroll
        for (int d = 0; d < D / 2; ++d) {
            if (d >= half) break;
            const float given = upper ? total[d] : total[d + half];
            const float kept = upper ? total[d + half] : total[d];
            total[d] = kept + __shfl_xor_sync(ALL, given, step);
        }
        if (upper) first_channel += half;
    }

    if (row >= S) return;
    const float inverse = 1.0f / mass;
    __half* to = o + head + size_t(row) * D + first_channel;
#pragma unroll
    for (int d = 0; d < D / LANES; d += VECTOR) {
        __half2 pair[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pair[i] = __floats2half2_rn(total[d + 2 * i] * inverse, total[d + 2 * i + 1] * inverse);
        }
        *reinterpret_cast<uint4*>(to + d) = *reinterpret_cast<const uint4*>(pair);
    }
}
