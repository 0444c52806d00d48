/*---
[idea]
title = "both products as wmma tiles of 48 x 32, twelve warps to a block"
hypothesis = """
With both products on tensor cores nothing scalar is left but the softmax. Twelve warps hold a tile of 48 \
rows: six compute its 48 x 32 scores, all twelve normalise four rows each, and each adds to 16 x 16 of the \
48 x 64 outputs, which lie in shared memory because rows must be rescaled and a lane's share of a wmma \
result is not specified. A second buffer for keys and values saves one of four barriers for each tile, and \
makes 49,536 bytes of shared memory, which is more than a kernel can declare: it is dynamic."""
gain = [0.8, 2.5]

[step]
phase = "tensor"
sweep = ["BUFFERS"]

[[launch]]
kernel = "attention_split"
grid = ["cdiv(S, 48)", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 48) * B * H))", "B * H"]
block = [384]
shared = "6912 + BUFFERS * 9216 + 6912 + 3840 + 13056 + 384"
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 48) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 48) * B * H))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * H * S", "min(KV_SPLITS, cdiv(4 * SM_COUNT, cdiv(S, 48) * B * H))", "2"]

[tunables.BUFFERS]
value = 1
choices = [1, 2]
[tunables.KV_SPLITS]
value = 32
choices = [16, 32]
---*/
#include <cuda_fp16.h>
#include <mma.h>

constexpr int D = 64;
constexpr int ROWS = 48;       // query rows of a block
constexpr int TILE = 32;       // keys of a tile
constexpr int WARPS = 12;      // one for each 16 x 16 of the outputs
constexpr int THREADS = 32 * WARPS;
constexpr int OWN = ROWS / WARPS;  // rows of a warp in the softmax, eight lanes to each
constexpr int STRIDE = D + 8;  // of f16 rows: pieces of 16 bytes stay aligned and fall on different banks
constexpr int VECTOR = 8;      // f16 elements in 16 bytes
constexpr int PIECES = TILE * D / VECTOR;  // of a tile of keys or of values
constexpr int MOST_SLICES = 32;  // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;
// Weights are computed 2^15 times too large, which their mass takes out again: f16 then holds the
// small ones as normal numbers, and the largest still fits.
constexpr float LIFT = 15.0f;

struct Tiles {
    __half keys[TILE][STRIDE];
    __half values[TILE][STRIDE];
};

// As the plan has it: 6912 + BUFFERS * 9216 + 6912 + 3840 + 13056 + 384 bytes.
struct Shared {
    __half query[ROWS][STRIDE];
    Tiles tiles[BUFFERS];
    float scores[ROWS][TILE + 4];
    __half weights[ROWS][TILE + 8];
    float output[ROWS][D + 4];
    float largest[ROWS];
    float mass[ROWS];
};

// This thread's share of a tile: the first PIECES pieces are keys, the others values.
constexpr int PARTS = (2 * PIECES + THREADS - 1) / THREADS;

// Loads this thread's share of `count` rows; what a tile lacks becomes zero. Nothing waits for the loads
// before `put`, so that they are under way while the last tile is multiplied.
__device__ void fetch(uint4 (&parts)[PARTS], const __half* k, const __half* v, int count) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int piece = i * THREADS + threadIdx.x;
        const int at = piece % PIECES * VECTOR;
        parts[i] = make_uint4(0, 0, 0, 0);
        if (piece < 2 * PIECES && at / D < count) {
            parts[i] = *reinterpret_cast<const uint4*>((piece < PIECES ? k : v) + at);
        }
    }
}

__device__ void put(Tiles& tiles, const uint4 (&parts)[PARTS]) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        const int piece = i * THREADS + threadIdx.x;
        const int at = piece % PIECES * VECTOR;
        if (piece >= 2 * PIECES) continue;
        __half* to = piece < PIECES ? &tiles.keys[at / D][at % D] : &tiles.values[at / D][at % D];
        *reinterpret_cast<uint4*>(to) = parts[i];
    }
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

// Block (x, y, z): 48 rows of head z against slice y of the keys. If the slice is all keys, the block
// writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int S, float scale) {
    using namespace nvcuda::wmma;
    extern __shared__ __align__(32) unsigned char bytes[];
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int band = warp / 4 * 16;     // this warp's rows and channels of the outputs
    const int channel = warp % 4 * 16;
    const int row = OWN * warp + lane / 8;  // this lane's row in the softmax
    const int part_of_row = lane % 8;
    const size_t head = size_t(blockIdx.z) * S;
    const int first_row = blockIdx.x * ROWS;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);
    k += head * D;
    v += head * D;

    // One piece of 16 bytes for each thread; rows past the end of the head are copies of its last one.
    const int at = threadIdx.x * VECTOR;
    *reinterpret_cast<uint4*>(&shared.query[at / D][at % D]) = *reinterpret_cast<const uint4*>(
        q + (head + min(first_row + at / D, S - 1)) * D + at % D);
    for (int i = threadIdx.x; i < ROWS * D; i += THREADS) shared.output[i / D][i % D] = 0.0f;

    float largest = -INFINITY;
    float mass = 0.0f;
    uint4 parts[PARTS];
    int current = 0;
    if (begin < end) {
        fetch(parts, k + size_t(begin) * D, v + size_t(begin) * D, min(TILE, end - begin));
        put(shared.tiles[0], parts);
    }
    for (int first = begin; first < end; first += TILE) {
        const int count = min(TILE, end - first);
        const int next = first + TILE;
        const Tiles& tiles = shared.tiles[current];
        __syncthreads();  // the tile is there
        if (next < end) {
            fetch(parts, k + size_t(next) * D, v + size_t(next) * D, min(TILE, end - next));
        }
        if (warp < 6) {
            const int rows = warp / 2 * 16;
            const int keys = warp % 2 * 16;
            fragment<accumulator, 16, 16, 16, float> sum;
            fill_fragment(sum, 0.0f);
#pragma unroll
            for (int d = 0; d < D; d += 16) {
                fragment<matrix_a, 16, 16, 16, __half, row_major> a;
                fragment<matrix_b, 16, 16, 16, __half, col_major> b;  // k transposed, as its rows lie
                load_matrix_sync(a, &shared.query[rows][d], STRIDE);
                load_matrix_sync(b, &tiles.keys[keys][d], STRIDE);
                mma_sync(sum, a, b, sum);
            }
            store_matrix_sync(&shared.scores[rows][keys], sum, TILE + 4, mem_row_major);
        }
        __syncthreads();  // the scores are there

        // Scores are in units of log2, so that a weight is a bare exp2.
        float score[TILE / 8];
        float grown = largest;
#pragma unroll
        for (int i = 0; i < TILE / 8; ++i) {
            const int key = 8 * i + part_of_row;
            score[i] = key < count ? shared.scores[row][key] * (scale * LOG2_E) : -INFINITY;
            grown = fmaxf(grown, score[i]);
        }
        grown = row_max(grown);
        const float keep = exp2f(largest - grown);
        largest = grown;
        mass *= keep;
#pragma unroll
        for (int i = 0; i < TILE / 8; ++i) {
            const float weight = exp2f(score[i] - largest + LIFT);
            mass += weight;
            shared.weights[row][8 * i + part_of_row] = __float2half_rn(weight);
        }
#pragma unroll
        for (int i = 0; i < D / 8; ++i) shared.output[row][8 * i + part_of_row] *= keep;
        __syncthreads();  // the weights and the rescaled sums are there

        fragment<accumulator, 16, 16, 16, float> total;
        load_matrix_sync(total, &shared.output[band][channel], D + 4, mem_row_major);
#pragma unroll
        for (int key = 0; key < TILE; key += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> a;
            fragment<matrix_b, 16, 16, 16, __half, row_major> b;
            load_matrix_sync(a, &shared.weights[band][key], TILE + 8);
            load_matrix_sync(b, &tiles.values[key][channel], STRIDE);
            mma_sync(total, a, b, total);
        }
        store_matrix_sync(&shared.output[band][channel], total, D + 4, mem_row_major);

        if (BUFFERS == 1) __syncthreads();  // everyone has finished with the tile
        current = (current + 1) % BUFFERS;
        if (next < end) put(shared.tiles[current], parts);
    }

    mass = row_sum(mass);
    if (part_of_row == 0) {
        shared.largest[row] = largest;
        shared.mass[row] = mass;
    }
    __syncthreads();
    // A warp writes whole rows, four channels to a lane.
    for (int i = threadIdx.x; i < ROWS * D / 4; i += THREADS) {
        const int r = i / (D / 4);
        const int c = i % (D / 4) * 4;
        const int position = first_row + r;
        if (position >= S) break;
        const float4 sum = *reinterpret_cast<const float4*>(&shared.output[r][c]);
        if (gridDim.y == 1) {
            const float inverse = 1.0f / shared.mass[r];
            __half2* to = reinterpret_cast<__half2*>(o + (head + position) * D + c);
            to[0] = __floats2half2_rn(sum.x * inverse, sum.y * inverse);
            to[1] = __floats2half2_rn(sum.z * inverse, sum.w * inverse);
            continue;
        }
        const size_t part = (head + position) * gridDim.y + blockIdx.y;
        *reinterpret_cast<float4*>(part_o + part * D + c) = sum;
        if (c == 0) part_ml[part] = make_float2(shared.largest[r], shared.mass[r]);
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
