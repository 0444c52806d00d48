/*---
[idea]
title = "only as many slices as the grid lacks"
hypothesis = """
A fixed number of slices that fills the device for a short sequence is ballast for a long one: every \
slice writes a partial sum for every row and the fuse kernel reads it back. Let the plan ask for just \
the blocks that are missing to CTAS_PER_SM. A lone slice needs no fusing and writes the output itself; \
otherwise the fuse kernel takes all slices of a row at once."""
gain = [1.1, 1.8]

[step]
phase = "parallelism"
sweep = ["CTAS_PER_SM"]

[[launch]]
kernel = "attention_split"
grid = [
  "cdiv(S, WARPS * ROWS_PER_WARP)",
  "min(32, cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, WARPS * ROWS_PER_WARP) * B * H))",
  "B * H",
]
block = ["32 * WARPS"]
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(32, cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, WARPS * ROWS_PER_WARP) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = [
  "B * H * S",
  "min(32, cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, WARPS * ROWS_PER_WARP) * B * H))",
  "D",
]

[workspace.part_ml]
dtype = "f32"
shape = [
  "B * H * S",
  "min(32, cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, WARPS * ROWS_PER_WARP) * B * H))",
  "2",
]

[tunables.ROWS_PER_WARP]
value = 2
choices = [1, 2, 4]
[tunables.WARPS]
value = 4
choices = [2, 4, 8]
[tunables.CTAS_PER_SM]
value = 4
choices = [4, 8, 16]
---*/
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = WARPS * ROWS_PER_WARP;
constexpr int THREADS = 32 * WARPS;
constexpr int TILE = 32;           // keys in a tile: one per lane
constexpr int KEY_STRIDE = D + 4;  // padded: lanes read down a column, each from its own banks
constexpr int VECTOR = 8;          // f16 elements in 16 bytes
constexpr int MOST_SLICES = 32;  // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

// Copies rows [first, first + TILE) of `from` to a tile of f32; rows past `last` become zeros.
template <int STRIDE>
__device__ void stage(float (*tile)[STRIDE], const __half* from, int first, int last) {
    for (int i = threadIdx.x; i < TILE * D / VECTOR; i += THREADS) {
        const int row = i / (D / VECTOR);
        const int d = i % (D / VECTOR) * VECTOR;
        uint4 packed = make_uint4(0, 0, 0, 0);
        if (first + row < last) {
            packed = *reinterpret_cast<const uint4*>(from + size_t(first + row) * D + d);
        }
        const __half2* pair = reinterpret_cast<const __half2*>(&packed);
        const float2 a = __half22float2(pair[0]), b = __half22float2(pair[1]);
        const float2 c = __half22float2(pair[2]), e = __half22float2(pair[3]);
        float4* to = reinterpret_cast<float4*>(&tile[row][d]);
        to[0] = make_float4(a.x, a.y, b.x, b.y);
        to[1] = make_float4(c.x, c.y, e.x, e.y);
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

// Block (x, y, z): a few rows of head z against slice y of the keys. If the slice is all keys, the
// block writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int S, float scale) {
    __shared__ __align__(16) float queries[ROWS][D];
    __shared__ __align__(16) float keys[TILE][KEY_STRIDE];
    __shared__ __align__(16) float values[TILE][D];

    const int lane = threadIdx.x % 32;
    const int own = threadIdx.x / 32 * ROWS_PER_WARP;  // the warp's first row within the block
    const int first_row = blockIdx.x * ROWS;
    const size_t head = size_t(blockIdx.z) * S * D;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);

    // Scores are kept in units of log2, so that a weight is a bare exp2.
    for (int i = threadIdx.x; i < ROWS * D; i += THREADS) {
        const int row = min(first_row + i / D, S - 1);
        queries[i / D][i % D] = __half2float(q[head + size_t(row) * D + i % D]) * (scale * LOG2_E);
    }

    float2 total[ROWS_PER_WARP];  // channels 2 lane and 2 lane + 1
    float mass[ROWS_PER_WARP];    // of the keys that this lane scored
    float largest[ROWS_PER_WARP];
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        total[r] = make_float2(0.0f, 0.0f);
        mass[r] = 0.0f;
        largest[r] = -INFINITY;
    }

    for (int first = begin; first < end; first += TILE) {
        __syncthreads();
        stage(keys, k + head, first, end);
        stage(values, v + head, first, end);
        __syncthreads();

        // Lane = key.
        float weight[ROWS_PER_WARP] = {};
#pragma unroll
        for (int d = 0; d < D; d += 4) {
            const float4 key = *reinterpret_cast<const float4*>(&keys[lane][d]);
#pragma unroll
            for (int r = 0; r < ROWS_PER_WARP; ++r) {
                const float4 query = *reinterpret_cast<const float4*>(&queries[own + r][d]);
                weight[r] += query.x * key.x + query.y * key.y + query.z * key.z + query.w * key.w;
            }
        }
        const int count = min(TILE, end - first);
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; ++r) {
            const float score = lane < count ? weight[r] : -INFINITY;
            const float grown = fmaxf(largest[r], warp_max(score));
            const float keep = exp2f(largest[r] - grown);
            weight[r] = exp2f(score - grown);
            largest[r] = grown;
            mass[r] = mass[r] * keep + weight[r];
            total[r].x *= keep;
            total[r].y *= keep;
        }

        // Lane = two channels; the weight of key j comes from the lane that scored it.
        for (int j = 0; j < count; ++j) {
            const float2 value = *reinterpret_cast<const float2*>(&values[j][2 * lane]);
#pragma unroll
            for (int r = 0; r < ROWS_PER_WARP; ++r) {
                const float shared_weight = __shfl_sync(ALL, weight[r], j);
                total[r].x += shared_weight * value.x;
                total[r].y += shared_weight * value.y;
            }
        }
    }

#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        const float slice_mass = warp_sum(mass[r]);
        const int row = first_row + own + r;
        if (row < S && gridDim.y == 1) {
            const float inverse = 1.0f / slice_mass;
            reinterpret_cast<__half2*>(o + head + size_t(row) * D)[lane] =
                __floats2half2_rn(total[r].x * inverse, total[r].y * inverse);
        } else if (row < S) {
            const size_t part = (size_t(blockIdx.z) * S + row) * gridDim.y + blockIdx.y;
            reinterpret_cast<float2*>(part_o + part * D)[lane] = total[r];
            if (lane == 0) part_ml[part] = make_float2(largest[r], slice_mass);
        }
    }
}

// Block = one row, thread (x, y) = two channels of slice y: each brings its slice to the largest of
// the slices' maxima, and the first slice's threads add up.
extern "C" __global__ void __launch_bounds__(D / 2 * MOST_SLICES)
    attention_fuse(const float2* __restrict__ part_o, const float2* __restrict__ part_ml,
                   __half2* __restrict__ o) {
    __shared__ float2 scaled[MOST_SLICES][D / 2];
    const int slices = blockDim.y;
    if (slices == 1) return;  // the output is already there
    const int pair = threadIdx.x;
    const size_t first = size_t(blockIdx.x) * slices;
    const float2* ml = part_ml + first;

    float largest = -INFINITY;
    for (int s = 0; s < slices; ++s) largest = fmaxf(largest, ml[s].x);
    const float factor = exp2f(ml[threadIdx.y].x - largest);
    const float2 sum = part_o[(first + threadIdx.y) * (D / 2) + pair];
    scaled[threadIdx.y][pair] = make_float2(factor * sum.x, factor * sum.y);
    __syncthreads();
    if (threadIdx.y > 0) return;

    float mass = 0.0f;
    float2 total = make_float2(0.0f, 0.0f);
    for (int s = 0; s < slices; ++s) {
        mass += exp2f(ml[s].x - largest) * ml[s].y;
        total.x += scaled[s][pair].x;
        total.y += scaled[s][pair].y;
    }
    const float inverse = 1.0f / mass;
    o[size_t(blockIdx.x) * (D / 2) + pair] = __floats2half2_rn(total.x * inverse, total.y * inverse);
}
