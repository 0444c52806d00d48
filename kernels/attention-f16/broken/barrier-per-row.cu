/*---
[expect]
verdict = "barrier_error"

[[launch]]
kernel = "attention"
grid = ["cdiv(S, 6)", "H", "B"]
block = [128]
args = ["q", "k", "v", "o", "S", "scale"]
---*/
// Wrong: four warps share six rows, so two warps walk over the keys twice and two warps once, yet the
// walk contains barriers for the whole block. The idle warps wait for the end of the block while the
// busy ones wait for help with the next tile.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int WARPS = 4;
constexpr int ROWS = 6;
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

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int S, float scale) {
    __shared__ __align__(16) float queries[ROWS][D];
    __shared__ __align__(16) float keys[TILE][KEY_STRIDE];
    __shared__ __align__(16) float values[TILE][D];
    __shared__ __align__(16) float2 results[ROWS][D / 2];

    const int lane = threadIdx.x % 32;
    const int first_row = blockIdx.x * ROWS;
    const size_t head = size_t(blockIdx.z * gridDim.y + blockIdx.y) * S * D;

    // Scores are kept in units of log2, so that a weight is a bare exp2.
    for (int i = threadIdx.x; i < ROWS * D; i += THREADS) {
        const int row = min(first_row + i / D, S - 1);
        queries[i / D][i % D] = __half2float(q[head + size_t(row) * D + i % D]) * (scale * LOG2_E);
    }

    for (int own = threadIdx.x / 32; own < ROWS; own += WARPS) {
        float2 total = make_float2(0.0f, 0.0f);  // channels 2 lane and 2 lane + 1
        float mass = 0.0f;                       // of the keys that this lane scored
        float largest = -INFINITY;
        for (int first = 0; first < S; first += TILE) {
            __syncthreads();  // <- finding
            stage(keys, k + head, first, S);
            stage(values, v + head, first, S);
            __syncthreads();

            // Lane = key.
            float weight = 0.0f;
#pragma unroll
            for (int d = 0; d < D; d += 4) {
                const float4 key = *reinterpret_cast<const float4*>(&keys[lane][d]);
                const float4 query = *reinterpret_cast<const float4*>(&queries[own][d]);
                weight += query.x * key.x + query.y * key.y + query.z * key.z + query.w * key.w;
            }
            const int count = min(TILE, S - first);
            const float score = lane < count ? weight : -INFINITY;
            const float grown = fmaxf(largest, warp_max(score));
            const float keep = exp2f(largest - grown);
            weight = exp2f(score - grown);
            largest = grown;
            mass = mass * keep + weight;
            total.x *= keep;
            total.y *= keep;

            // Lane = two channels; the weight of key j comes from the lane that scored it.
            for (int j = 0; j < count; ++j) {
                const float2 value = *reinterpret_cast<const float2*>(&values[j][2 * lane]);
                const float shared_weight = __shfl_sync(ALL, weight, j);
                total.x += shared_weight * value.x;
                total.y += shared_weight * value.y;
            }
        }
        const float inverse = 1.0f / warp_sum(mass);
        results[own][lane] = make_float2(total.x * inverse, total.y * inverse);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < ROWS * D / 2; i += THREADS) {
        const int row = first_row + i / (D / 2);
        if (row < S) {
            const float2 result = results[i / (D / 2)][i % (D / 2)];
            reinterpret_cast<__half2*>(o + head + size_t(row) * D)[i % (D / 2)] =
                __floats2half2_rn(result.x, result.y);
        }
    }
}
