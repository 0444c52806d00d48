/*---
[idea]
title = "several threads per row"
hypothesis = """
A thread that holds a whole query row and a whole output row needs 200 registers, so a multiprocessor \
runs few warps and each walks through long chains of dependent sums alone. Dividing the 64 channels of \
a row among LANES threads, which add up their parts of a score by shuffles, makes LANES times as many \
warps with shorter chains."""
gain = [1.1, 2.0]

[step]
phase = "parallelism"
sweep = ["LANES"]

[[launch]]
kernel = "attention"
grid = ["cdiv(S, 64)", "H", "B"]
block = ["64 * LANES"]
args = ["q", "k", "v", "o", "S", "scale"]

[tunables.LANES]
value = 4
choices = [2, 4, 8]
[tunables.BLOCK_N]
value = 32
choices = [16, 32, 64]
---*/
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = 64;
constexpr int THREADS = ROWS * LANES;
constexpr int WIDTH = D / LANES;  // channels of a lane
constexpr int CHUNK = 8;          // keys whose scores a thread holds at once
constexpr int VECTOR = 8;         // f16 elements in 16 bytes
constexpr int PARTS = (BLOCK_N * D / VECTOR + THREADS - 1) / THREADS;  // of a tile, for each thread
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

// Stores what `fetch` loaded to a tile of f32, up to a whole chunk.
__device__ void put(float (*tile)[D], const uint4 (&parts)[PARTS], int count) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        if (at / D >= (count + CHUNK - 1) / CHUNK * CHUNK) continue;
        const __half2* pair = reinterpret_cast<const __half2*>(&parts[i]);
        const float2 a = __half22float2(pair[0]), b = __half22float2(pair[1]);
        const float2 c = __half22float2(pair[2]), e = __half22float2(pair[3]);
        float4* to = reinterpret_cast<float4*>(&tile[at / D][at % D]);
        to[0] = make_float4(a.x, a.y, b.x, b.y);
        to[1] = make_float4(c.x, c.y, e.x, e.y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int S, float scale) {
    __shared__ __align__(16) float keys[BLOCK_N][D];
    __shared__ __align__(16) float values[BLOCK_N][D];

    const size_t head = size_t(blockIdx.z * gridDim.y + blockIdx.y) * S * D;
    const int row = blockIdx.x * ROWS + threadIdx.x / LANES;
    const int channel = threadIdx.x % LANES * 4;
    // Threads without a row of their own help to stage and compute a copy of the last row.
    const __half* own = q + head + size_t(min(row, S - 1)) * D + channel;

    // Of every 4 LANES channels a lane owns four, so that the lanes of a row load neighbouring words.
    // Scores are kept in units of log2, so that a weight is a bare exp2.
    float query[WIDTH];
    float total[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        query[i] = __half2float(own[i / 4 * 4 * LANES + i % 4]) * (scale * LOG2_E);
        total[i] = 0.0f;
    }

    float largest = -INFINITY;
    float mass = 0.0f;
    for (int first = 0; first < S; first += BLOCK_N) {
        const int count = min(BLOCK_N, S - first);
        uint4 key_parts[PARTS];
        uint4 value_parts[PARTS];
        fetch(key_parts, k + head + size_t(first) * D, count);
        fetch(value_parts, v + head + size_t(first) * D, count);
        __syncthreads();
        put(keys, key_parts, count);
        put(values, value_parts, count);
        __syncthreads();

        for (int base = 0; base < count; base += CHUNK) {
            float score[CHUNK] = {};
#pragma unroll
            for (int i = 0; i < WIDTH; i += 4) {
#pragma unroll
                for (int j = 0; j < CHUNK; ++j) {
                    const float4 key =
                        *reinterpret_cast<const float4*>(&keys[base + j][channel + i * LANES]);
                    score[j] += query[i] * key.x + query[i + 1] * key.y + query[i + 2] * key.z +
                                query[i + 3] * key.w;
                }
            }
            // Every lane of a row gets the whole score.
#pragma unroll
            for (int step = 1; step < LANES; step *= 2) {
#pragma unroll
                for (int j = 0; j < CHUNK; ++j) score[j] += __shfl_xor_sync(ALL, score[j], step);
            }

            float grown = largest;
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) {
                if (base + j >= count) score[j] = -INFINITY;
                grown = fmaxf(grown, score[j]);
            }
            // What was summed so far is relative to the old maximum.
            const float keep = exp2f(largest - grown);
            largest = grown;
            mass *= keep;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) total[i] *= keep;

#pragma unroll
            for (int j = 0; j < CHUNK; ++j) {
                const float weight = exp2f(score[j] - largest);
                mass += weight;
#pragma unroll
                for (int i = 0; i < WIDTH; i += 4) {
                    const float4 value =
                        *reinterpret_cast<const float4*>(&values[base + j][channel + i * LANES]);
                    total[i] += weight * value.x;
                    total[i + 1] += weight * value.y;
                    total[i + 2] += weight * value.z;
                    total[i + 3] += weight * value.w;
                }
            }
        }
    }

    if (row >= S) return;
    const float inverse = 1.0f / mass;
    __half2* to = reinterpret_cast<__half2*>(o + head + size_t(row) * D + channel);
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        to[i / 2 * LANES] = __floats2half2_rn(total[i] * inverse, total[i + 1] * inverse);
        to[i / 2 * LANES + 1] = __floats2half2_rn(total[i + 2] * inverse, total[i + 3] * inverse);
    }
}
