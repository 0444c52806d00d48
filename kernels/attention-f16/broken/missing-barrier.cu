/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "attention"
grid = ["cdiv(S, 64)", "H", "B"]
block = [64]
args = ["q", "k", "v", "o", "S", "scale"]
---*/
// Wrong: nothing keeps a fast warp from overwriting the tile that a slow one still reads. It often
// passes by luck: the warps usually run side by side.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int BLOCK_N = 32;
constexpr int ROWS = 64;
constexpr int CHUNK = 8;     // keys whose scores a thread holds at once
constexpr int VECTOR = 8;    // f16 elements in 16 bytes
constexpr float LOG2_E = 1.4426950408889634f;

// Copies rows [first, first + BLOCK_N) of `from` to a tile of f32; rows past `last` become zeros.
__device__ void stage(float (*tile)[D], const __half* from, int first, int last) {
    for (int i = threadIdx.x; i < BLOCK_N * D / VECTOR; i += ROWS) {
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

extern "C" __global__ void __launch_bounds__(ROWS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int S, float scale) {
    __shared__ __align__(16) float keys[BLOCK_N][D];
    __shared__ __align__(16) float values[BLOCK_N][D];

    const size_t head = size_t(blockIdx.z * gridDim.y + blockIdx.y) * S * D;
    const int row = blockIdx.x * ROWS + threadIdx.x;
    // Threads without a row of their own help to stage and compute a copy of the last row.
    const __half* own = q + head + size_t(min(row, S - 1)) * D;

    // Scores are kept in units of log2, so that a weight is a bare exp2.
    float query[D];
    float total[D];
#pragma unroll
    for (int d = 0; d < D; ++d) {
        query[d] = __half2float(own[d]) * (scale * LOG2_E);
        total[d] = 0.0f;
    }

    float largest = -INFINITY;
    float mass = 0.0f;
    for (int first = 0; first < S; first += BLOCK_N) {
        stage(keys, k + head, first, S);  // <- finding
        stage(values, v + head, first, S);
        __syncthreads();

        const int count = min(BLOCK_N, S - first);
        for (int base = 0; base < count; base += CHUNK) {
            float score[CHUNK];
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) score[j] = 0.0f;
#pragma unroll
            for (int d = 0; d < D; d += 4) {
#pragma unroll
                for (int j = 0; j < CHUNK; ++j) {
                    const float4 key = *reinterpret_cast<const float4*>(&keys[base + j][d]);
                    score[j] += query[d] * key.x + query[d + 1] * key.y + query[d + 2] * key.z +
                                query[d + 3] * key.w;
                }
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
            for (int d = 0; d < D; ++d) total[d] *= keep;

#pragma unroll
            for (int j = 0; j < CHUNK; ++j) {
                const float weight = exp2f(score[j] - largest);
                mass += weight;
#pragma unroll
                for (int d = 0; d < D; d += 4) {
                    const float4 value = *reinterpret_cast<const float4*>(&values[base + j][d]);
                    total[d] += weight * value.x;
                    total[d + 1] += weight * value.y;
                    total[d + 2] += weight * value.z;
                    total[d + 3] += weight * value.w;
                }
            }
        }
    }

    if (row >= S) return;
    const float inverse = 1.0f / mass;
    __half2* to = reinterpret_cast<__half2*>(o + head + size_t(row) * D);
#pragma unroll
    for (int d = 0; d < D; d += 2) {
        to[d / 2] = __floats2half2_rn(total[d] * inverse, total[d + 1] * inverse);
    }
}
