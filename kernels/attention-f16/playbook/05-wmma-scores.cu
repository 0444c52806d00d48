/*---
[idea]
title = "scores on tensor cores, sums of values without"
hypothesis = """
Half of the multiply-adds are the product of queries and keys. wmma computes 16 x 16 of its scores with \
four instructions of a warp instead of 512. Between the products lies shared memory, because where a lane \
keeps its share of a wmma result is not specified. The weighted sum of the values stays scalar, so the \
gain is bounded by two. USE_TC = 0 computes the scores without tensor cores in the same frame, so that the \
sweep measures what they are worth alone."""
gain = [0.7, 1.6]

[step]
phase = "tensor"
sweep = ["USE_TC"]

[[launch]]
kernel = "attention_split"
grid = ["cdiv(S, 16)", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 16) * B * H))", "B * H"]
block = [128]
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 16) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 16) * B * H))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 16) * B * H))", "2"]

[tunables.USE_TC]
value = 1
choices = [0, 1]
[tunables.KV_SPLITS]
value = 32
choices = [16, 32]
---*/
#include <cuda_fp16.h>
#include <mma.h>

constexpr int D = 64;
constexpr int ROWS = 16;        // query rows of a block
constexpr int TILE = 64;        // keys of a tile: a warp computes the scores of 16 of them
constexpr int THREADS = 128;
constexpr int OWN = 4;          // rows of a warp in the softmax and in the sum of values
constexpr int STRIDE = D + 8;   // of f16 rows: pieces of 16 bytes stay aligned and fall on different banks
constexpr int SCORES = TILE + 4;
constexpr int VECTOR = 8;       // f16 elements in 16 bytes
constexpr int PARTS = TILE * D / VECTOR / THREADS;  // of a tile, for each thread
constexpr int MOST_SLICES = 32;  // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

struct Shared {
    __half query[ROWS][STRIDE];
    __half keys[TILE][STRIDE];
    float values[TILE][D];
    float scores[ROWS][SCORES];
    float weights[TILE][ROWS];  // transposed: the rows of a warp are one load of 16 bytes
};

// Loads this thread's share of `count` rows from `from` on; what a tile lacks becomes zero. Nothing
// waits for the loads before they are stored, so that all of them are under way together.
__device__ void fetch(uint4 (&parts)[PARTS], const __half* from, int count) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        parts[i] = make_uint4(0, 0, 0, 0);
        if (at / D < count) parts[i] = *reinterpret_cast<const uint4*>(from + at);
    }
}

__device__ void put_keys(__half (*tile)[STRIDE], const uint4 (&parts)[PARTS]) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        *reinterpret_cast<uint4*>(&tile[at / D][at % D]) = parts[i];
    }
}

__device__ void put_values(float (*tile)[D], const uint4 (&parts)[PARTS]) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * VECTOR;
        const __half2* pair = reinterpret_cast<const __half2*>(&parts[i]);
        const float2 a = __half22float2(pair[0]), b = __half22float2(pair[1]);
        const float2 c = __half22float2(pair[2]), e = __half22float2(pair[3]);
        float4* to = reinterpret_cast<float4*>(&tile[at / D][at % D]);
        to[0] = make_float4(a.x, a.y, b.x, b.y);
        to[1] = make_float4(c.x, c.y, e.x, e.y);
    }
}

// Scores of all rows with the 16 keys of this warp.
__device__ void multiply_keys(Shared& shared, int warp) {
#if USE_TC
    using namespace nvcuda::wmma;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> a;
        fragment<matrix_b, 16, 16, 16, __half, col_major> b;  // k transposed, as its rows lie
        load_matrix_sync(a, &shared.query[0][d], STRIDE);
        load_matrix_sync(b, &shared.keys[16 * warp][d], STRIDE);
        mma_sync(sum, a, b, sum);
    }
    store_matrix_sync(&shared.scores[0][16 * warp], sum, SCORES, mem_row_major);
#else
    // A lane takes one key and eight of the rows.
    const int key = 16 * warp + threadIdx.x % 16;
    const int first_row = threadIdx.x % 32 / 16 * 8;
    float sum[8] = {};
#pragma unroll
    for (int d = 0; d < D; d += VECTOR) {
        const uint4 packed = *reinterpret_cast<const uint4*>(&shared.keys[key][d]);
        const __half2* pair = reinterpret_cast<const __half2*>(&packed);
#pragma unroll
        for (int row = 0; row < 8; ++row) {
            const uint4 own = *reinterpret_cast<const uint4*>(&shared.query[first_row + row][d]);
            const __half2* query = reinterpret_cast<const __half2*>(&own);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 x = __half22float2(query[i]);
                const float2 y = __half22float2(pair[i]);
                sum[row] += x.x * y.x + x.y * y.y;
            }
        }
    }
#pragma unroll
    for (int row = 0; row < 8; ++row) shared.scores[first_row + row][key] = sum[row];
#endif
}

// The largest, or the sum, over the eight lanes that share a row.
__device__ float row_max(float x) {
    for (int step = 1; step < 8; step *= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
    return x;
}
__device__ float row_sum(float x) {
    for (int step = 1; step < 8; step *= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// Block (x, y, z): 16 rows of head z against slice y of the keys. If the slice is all keys, the block
// writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int S, float scale) {
    __shared__ __align__(32) Shared shared;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const size_t head = size_t(blockIdx.z) * S;
    const int first_row = blockIdx.x * ROWS;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);

    // Rows past the end of the head are copies of its last one.
    {
        const int at = threadIdx.x * VECTOR;
        const int row = min(first_row + at / D, S - 1);
        *reinterpret_cast<uint4*>(&shared.query[at / D][at % D]) =
            *reinterpret_cast<const uint4*>(q + (head + row) * D + at % D);
    }

    float2 total[OWN] = {};  // two channels of this warp's rows
    float largest = -INFINITY;  // of row lane / 8, as is its mass
    float mass = 0.0f;
    for (int first = begin; first < end; first += TILE) {
        const int count = min(TILE, end - first);
        uint4 key_parts[PARTS];
        uint4 value_parts[PARTS];
        fetch(key_parts, k + (head + first) * D, count);
        fetch(value_parts, v + (head + first) * D, count);
        __syncthreads();  // everyone has finished with the last tile
        put_keys(shared.keys, key_parts);
        put_values(shared.values, value_parts);
        __syncthreads();
        if (16 * warp < count) multiply_keys(shared, warp);
        __syncthreads();

        // Eight lanes to a row, each with every eighth key. Scores are in units of log2, so that a
        // weight is a bare exp2.
        const int row = OWN * warp + lane / 8;
        float score[TILE / 8];
        float grown = largest;
#pragma unroll
        for (int i = 0; i < TILE / 8; ++i) {
            const int key = 8 * i + lane % 8;
            score[i] = key < count ? shared.scores[row][key] * (scale * LOG2_E) : -INFINITY;
            grown = fmaxf(grown, score[i]);
        }
        grown = row_max(grown);
        const float keep = exp2f(largest - grown);
        largest = grown;
        mass *= keep;
#pragma unroll
        for (int i = 0; i < TILE / 8; ++i) {
            const float weight = exp2f(score[i] - largest);
            mass += weight;
            shared.weights[8 * i + lane % 8][row] = weight;
        }
        __syncwarp();  // a warp reads only the weights of its own rows

#pragma unroll
        for (int r = 0; r < OWN; ++r) {
            const float of_row = __shfl_sync(ALL, keep, 8 * r);
            total[r].x *= of_row;
            total[r].y *= of_row;
        }
        for (int key = 0; key < count; ++key) {
            const float4 weight = *reinterpret_cast<const float4*>(&shared.weights[key][OWN * warp]);
            const float2 value = *reinterpret_cast<const float2*>(&shared.values[key][2 * lane]);
            total[0].x += weight.x * value.x;
            total[0].y += weight.x * value.y;
            total[1].x += weight.y * value.x;
            total[1].y += weight.y * value.y;
            total[2].x += weight.z * value.x;
            total[2].y += weight.z * value.y;
            total[3].x += weight.w * value.x;
            total[3].y += weight.w * value.y;
        }
    }

    mass = row_sum(mass);
#pragma unroll
    for (int r = 0; r < OWN; ++r) {
        const int position = first_row + OWN * warp + r;
        const float of_row = __shfl_sync(ALL, mass, 8 * r);
        const float top = __shfl_sync(ALL, largest, 8 * r);
        if (position >= S) continue;
        if (gridDim.y == 1) {
            const float inverse = 1.0f / of_row;
            *reinterpret_cast<__half2*>(o + (head + position) * D + 2 * lane) =
                __floats2half2_rn(total[r].x * inverse, total[r].y * inverse);
            continue;
        }
        const size_t part = (head + position) * gridDim.y + blockIdx.y;
        *reinterpret_cast<float2*>(part_o + part * D + 2 * lane) = total[r];
        if (lane == 0) part_ml[part] = make_float2(top, of_row);
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
