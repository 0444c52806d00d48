/*---
[idea]
title = "a persistent grid that draws its work from a queue"
hypothesis = """
A grid with one block for every pair of a row tile and a key slice leaves multiprocessors idle at its end, \
and pays for the start of each block. A grid that fits the device stays until all work is done: its blocks \
take the full rounds of pairs in a fixed order, and draw the pairs of the last, uneven round from a counter, \
which the plan clears before. Where all pairs cost the same, as here, only that last round can be won back."""
gain = [0.7, 1.2]

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
value = 16
choices = [16, 32, 64]
---*/
// Slower than the step before on the task's shapes: to clear the counter is one launch more, a third of the time of
// `starved`, and all of its pairs fit into the first round. `ladder` has 512 pairs of equal cost for 464 blocks. A queue
// pays where pairs differ in cost, as under a causal mask, or where rounds are many.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int THREADS = ROWS * LANES;
constexpr int ROWS_OF_WARP = 32 / LANES;  // neighbouring threads have different rows and the same keys
constexpr int CHUNK = BLOCK_N / LANES < 4 ? BLOCK_N / LANES : 4;  // keys whose scores a thread holds at once
constexpr int STRIDE = D + 4;             // padded: the keys of different lanes lie in different banks
constexpr int VECTOR = 8;                 // f16 elements in 16 bytes
constexpr int PARTS = BLOCK_N * D / VECTOR / THREADS;  // of a tile, for each thread
constexpr int MOST_SLICES = 32;           // a block of the fuse kernel has a warp for each
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

// A tile of ROWS rows of a head, and the slice of the keys that it is to meet.
struct Pair {
    int tile;
    int slice;
    int head;
};

struct Tiles {
    float keys[BLOCK_N][STRIDE];
    float values[BLOCK_N][STRIDE];
};

// The work of one pair. If its slice is all keys, the output is written.
__device__ void attend(const __half* __restrict__ q, const __half* __restrict__ k,
                       const __half* __restrict__ v, __half* __restrict__ o,
                       float* __restrict__ part_o, float2* __restrict__ part_ml, Tiles& tiles,
                       Pair pair, int slices, int S, float scale) {
    float(*const keys)[STRIDE] = tiles.keys;
    float(*const values)[STRIDE] = tiles.values;
    const size_t head = size_t(pair.head) * S * D;
    const int row = pair.tile * ROWS + threadIdx.x / 32 * ROWS_OF_WARP + threadIdx.x % ROWS_OF_WARP;
    const int lane = threadIdx.x % 32 / ROWS_OF_WARP;
    // Threads without a row of their own help to stage and compute a copy of the last row.
    const __half* own = q + head + size_t(min(row, S - 1)) * D;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + slices - 1) / slices;
    const int begin = pair.slice * slice;
    const int end = min(begin + slice, S);

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
    for (int first = begin; first < end; first += BLOCK_N) {
        const int count = min(BLOCK_N, end - first);
        uint4 key_parts[PARTS];
        uint4 value_parts[PARTS];
        fetch(key_parts, k + head + size_t(first) * D, count);
        fetch(value_parts, v + head + size_t(first) * D, count);
        __syncthreads();
        put(keys, key_parts);
        put(values, value_parts);
        __syncthreads();
        // The lane's keys are lane, lane + LANES, and so on.
        for (int base = lane; base < count; base += CHUNK * LANES) {
            float score[CHUNK] = {};
#pragma unroll
            for (int d = 0; d < D; d += 4) {
#pragma unroll
                for (int j = 0; j < CHUNK; ++j) {
                    const float4 key = *reinterpret_cast<const float4*>(&keys[base + j * LANES][d]);
                    score[j] += query[d] * key.x + query[d + 1] * key.y + query[d + 2] * key.z +
                                query[d + 3] * key.w;
                }
            }

            float grown = largest;
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) {
                if (base + j * LANES >= count) score[j] = -INFINITY;
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
                    const float4 value = *reinterpret_cast<const float4*>(&values[base + j * LANES][d]);
                    total[d] += weight * value.x;
                    total[d + 1] += weight * value.y;
                    total[d + 2] += weight * value.z;
                    total[d + 3] += weight * value.w;
                }
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
    if (slices > 1) {
        const size_t part = (size_t(pair.head) * S + row) * slices + pair.slice;
        float* to = part_o + part * D + first_channel;
#pragma unroll
        for (int d = 0; d < D / LANES; d += 4) {
            *reinterpret_cast<float4*>(to + d) =
                make_float4(total[d], total[d + 1], total[d + 2], total[d + 3]);
        }
        if (lane == 0) part_ml[part] = make_float2(top, mass);
        return;
    }
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

// Pairs are taken in the order in which a grid of them would start. Full rounds need no queue; what is left for the last
// round is drawn by the blocks that are ready first, and each finds at most one there.
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
    const int pairs = tiles_of_all * slices;
    const int full_rounds = pairs / gridDim.x;
    for (int round = 0; round <= full_rounds; ++round) {
        int own = round * gridDim.x + blockIdx.x;
        // A first round is never worth a queue.
        if (round == full_rounds && round > 0) {
            if (round * gridDim.x == pairs) return;
            if (threadIdx.x == 0) number = atomicAdd(drawn, 1);
            __syncthreads();
            own = round * gridDim.x + number;
        }
        if (own >= pairs) return;
        const int rest = own / row_tiles;
        attend(q, k, v, o, part_o, part_ml, tiles, Pair{own % row_tiles, rest % slices, rest / slices},
               slices, S, scale);
        __syncthreads();  // the tiles may still be read
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
