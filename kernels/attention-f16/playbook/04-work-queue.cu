/*---
[idea]
title = "a persistent grid that draws its work from a queue"
hypothesis = """
A grid with one block for every pair of a row tile and a key slice leaves multiprocessors idle at its end, \
and pays for the start of each block. A grid of a few blocks per multiprocessor stays until all work is \
done: each block draws the next pair from a counter, which the plan clears before. Where all pairs cost the \
same, as here, only the uneven last round can be won back."""
gain = [0.8, 1.2]

[step]
phase = "parallelism"
sweep = ["CTAS_PER_SM"]

[[launch]]
memset = "drawn"
byte = 0

[[launch]]
kernel = "attention_split"
grid = ["CTAS_PER_SM * SM_COUNT"]
block = ["ROWS * LANES"]
args = ["q", "k", "v", "o", "part_o", "part_ml", "drawn", "B", "H", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, ROWS) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.drawn]
dtype = "i32"
shape = ["1"]

[workspace.part_o]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, ROWS) * B * H))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, ROWS) * B * H))", "2"]

[tunables.CTAS_PER_SM]
value = 8
choices = [4, 8, 16]
[tunables.ROWS]
value = 8
choices = [8, 16]
[tunables.KV_SPLITS]
value = 16
choices = [8, 16, 32]
[tunables.LANES]
value = 4
choices = [4, 8]
[tunables.BLOCK_N]
value = 32
choices = [16, 32, 64]
---*/
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int THREADS = ROWS * LANES;
constexpr int WIDTH = D / LANES;  // channels of a lane
constexpr int CHUNK = 8;          // keys whose scores a thread holds at once
constexpr int VECTOR = 8;         // f16 elements in 16 bytes
constexpr int PARTS = (BLOCK_N * D / VECTOR + THREADS - 1) / THREADS;  // of a tile, for each thread
constexpr int MOST_SLICES = 32;   // a block of the fuse kernel has a warp for each
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

// A tile of ROWS rows of a head, and the slice of the keys that it is to meet.
struct Pair {
    int tile;
    int slice;
    int head;
};

struct Tiles {
    float keys[BLOCK_N][D];
    float values[BLOCK_N][D];
};

// The work of one pair. If its slice is all keys, the output is written.
__device__ void attend(const __half* __restrict__ q, const __half* __restrict__ k,
                       const __half* __restrict__ v, __half* __restrict__ o,
                       float* __restrict__ part_o, float2* __restrict__ part_ml, Tiles& tiles,
                       Pair pair, int slices, int S, float scale) {
    float(*const keys)[D] = tiles.keys;
    float(*const values)[D] = tiles.values;
    const size_t head = size_t(pair.head) * S * D;
    const int row = pair.tile * ROWS + threadIdx.x / LANES;
    const int channel = threadIdx.x % LANES * 4;
    // Threads without a row of their own help to stage and compute a copy of the last row.
    const __half* own = q + head + size_t(min(row, S - 1)) * D + channel;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + slices - 1) / slices;
    const int begin = pair.slice * slice;
    const int end = min(begin + slice, S);

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
    for (int first = begin; first < end; first += BLOCK_N) {
        const int count = min(BLOCK_N, end - first);
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
    if (slices > 1) {
        const size_t part = (size_t(pair.head) * S + row) * slices + pair.slice;
        float4* to = reinterpret_cast<float4*>(part_o + part * D + channel);
#pragma unroll
        for (int i = 0; i < WIDTH; i += 4) {
            to[i / 4 * LANES] = make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
        }
        if (channel == 0) part_ml[part] = make_float2(largest, mass);
        return;
    }
    const float inverse = 1.0f / mass;
    __half2* to = reinterpret_cast<__half2*>(o + head + size_t(row) * D + channel);
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        to[i / 2 * LANES] = __floats2half2_rn(total[i] * inverse, total[i + 1] * inverse);
        to[i / 2 * LANES + 1] = __floats2half2_rn(total[i + 2] * inverse, total[i + 3] * inverse);
    }
}

// Draws pairs until none is left, in the order in which a grid of them would start.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int* drawn, int B, int H,
                    int S, float scale) {
    __shared__ __align__(16) Tiles tiles;
    __shared__ int number;
    const int row_tiles = (S + ROWS - 1) / ROWS;
    // As in the plan, which sizes the workspaces by it.
    const int tiles_of_all = row_tiles * B * H;
    const int wanted = 4 * (gridDim.x / CTAS_PER_SM);
    const int slices = min(KV_SPLITS, (wanted + tiles_of_all - 1) / tiles_of_all);
    for (;;) {
        if (threadIdx.x == 0) number = atomicAdd(drawn, 1);
        __syncthreads();
        const int own = number;
        if (own >= tiles_of_all * slices) return;
        const int rest = own / row_tiles;
        attend(q, k, v, o, part_o, part_ml, tiles, Pair{own % row_tiles, rest % slices, rest / slices},
               slices, S, scale);
        __syncthreads();  // the number may still be read, and the tiles
    }
}

__device__ float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
    return x;
}

__device__ float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// Block = one row, warp = one slice, lane = two channels: each warp brings its slice to the largest of
// the slices' maxima, and the first adds up.
extern "C" __global__ void __launch_bounds__(32 * MOST_SLICES)
    attention_fuse(const float2* __restrict__ part_o, const float2* __restrict__ part_ml,
                   __half2* __restrict__ o) {
    __shared__ float2 scaled[MOST_SLICES][D / 2];
    const int slices = blockDim.y;
    if (slices == 1) return;  // the output is already there
    const int lane = threadIdx.x;
    const int slice = threadIdx.y;
    const size_t first = size_t(blockIdx.x) * slices;
    const float2 sum = part_o[(first + slice) * (D / 2) + lane];

    // Lane = slice: every warp finds the common scale and mass for itself.
    const float2 ml = lane < slices ? part_ml[first + lane] : make_float2(-INFINITY, 0.0f);
    const float factor = exp2f(ml.x - warp_max(ml.x));
    const float mass = warp_sum(factor * ml.y);
    const float own = __shfl_sync(ALL, factor, slice) / mass;
    scaled[slice][lane] = make_float2(own * sum.x, own * sum.y);
    __syncthreads();
    if (slice > 0) return;

    float2 total = make_float2(0.0f, 0.0f);
    for (int s = 0; s < slices; ++s) {
        total.x += scaled[s][lane].x;
        total.y += scaled[s][lane].y;
    }
    o[size_t(blockIdx.x) * (D / 2) + lane] = __floats2half2_rn(total.x, total.y);
}
