/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "attention_split"
grid = ["cdiv(S, 8)", "4", "B * H"]
block = [128]
args = ["q", "k", "v", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [64]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B", "H", "S", "4", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B", "H", "S", "4", "2"]
---*/
// Wrong: each slice divides its sum by its own mass before the fuse kernel weighs it, as if every slice
// of the keys held the same share of the softmax.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int WARPS = 4;
constexpr int ROWS_PER_WARP = 2;
constexpr int KV_SPLITS = 4;
constexpr int ROWS = WARPS * ROWS_PER_WARP;
constexpr int THREADS = 32 * WARPS;
constexpr int TILE = 32;           // keys in a tile: one per lane
constexpr int KEY_STRIDE = D + 4;  // padded: lanes read down a column, each from its own banks
constexpr int VECTOR = 8;          // f16 elements in 16 bytes
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

// Block (x, y, z): a few rows of head z against slice y of the keys.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, float* __restrict__ part_o,
                    float2* __restrict__ part_ml, int S, float scale) {
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
        const float inverse = slice_mass > 0.0f ? 1.0f / slice_mass : 0.0f;
        const int row = first_row + own + r;
        if (row < S) {
            const size_t part = (size_t(blockIdx.z) * S + row) * gridDim.y + blockIdx.y;
            reinterpret_cast<float2*>(part_o + part * D)[lane] =
                make_float2(total[r].x * inverse, total[r].y * inverse);
            if (lane == 0) part_ml[part] = make_float2(largest[r], slice_mass);
        }
    }
}

// Block = one row, thread = one channel: the slices' sums, brought to the largest of their maxima.
extern "C" __global__ void __launch_bounds__(D)
    attention_fuse(const float* __restrict__ part_o, const float2* __restrict__ part_ml,
                   __half* __restrict__ o) {
    const size_t row = blockIdx.x;
    const float2* ml = part_ml + row * KV_SPLITS;
    const float* sums = part_o + row * KV_SPLITS * D + threadIdx.x;

    float largest = -INFINITY;
#pragma unroll
    for (int s = 0; s < KV_SPLITS; ++s) largest = fmaxf(largest, ml[s].x);
    float mass = 0.0f;
    float total = 0.0f;
#pragma unroll
    for (int s = 0; s < KV_SPLITS; ++s) {
        const float factor = exp2f(ml[s].x - largest);
        mass += factor * ml[s].y;
        total += factor * sums[s * D];
    }
    o[row * D + threadIdx.x] = __float2half_rn(total / mass);
}
