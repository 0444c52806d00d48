/*---
[idea]
title = "query heads of a group share each load of a key"
hypothesis = """
The query heads of a group read the same keys and values, and in the scores a thread reads a row of its \
own, so that a warp touches 32 rows at once. Sixteen lanes that share a row load it as 16-byte pieces, \
contiguous over the warp, and use each piece for HEADS query heads. A score is a sum over sixteen lanes by \
four shuffles, and no barrier is needed inside the walk; the block's eight half warps are joined at its end."""
gain = [1.5, 4.0]

[step]
phase = "bandwidth"
sweep = ["HEADS", "CTAS_PER_SM"]

[[launch]]
kernel = "decode_split"
grid = ["cdiv(R, HEADS)", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * cdiv(R, HEADS))))", "B * G"]
block = [128]
args = ["q", "k", "v", "o", "part_o", "part_ml", "R", "S", "scale"]

[[launch]]
kernel = "decode_fuse"
grid = ["B * G * R"]
block = [32, "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * cdiv(R, HEADS))))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B * G * R", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * cdiv(R, HEADS))))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * G * R", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * cdiv(R, HEADS))))", "2"]

[tunables.HEADS]
value = 4
choices = [2, 4, 8]
[tunables.CTAS_PER_SM]
value = 4
choices = [2, 4, 8]
---*/
#include <cuda_fp16.h>

constexpr int D = 128;
constexpr int THREADS = 128;
constexpr int LANES = 16;             // that share a row: eight channels each
constexpr int WALKERS = THREADS / LANES;  // rows of keys that a block reads at once
constexpr int OWN = D / LANES;        // channels of a lane
constexpr int AHEAD = 4;              // keys whose loads are under way together
constexpr int MOST_SLICES = 32;       // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

__device__ void unpack(float (&to)[OWN], const uint4& piece) {
    const __half2* pair = reinterpret_cast<const __half2*>(&piece);
#pragma unroll
    for (int i = 0; i < OWN / 2; ++i) {
        const float2 two = __half22float2(pair[i]);
        to[2 * i] = two.x;
        to[2 * i + 1] = two.y;
    }
}

// Block (x, y, z): HEADS query heads of group z against slice y of the keys, which its eight half warps
// take in turn. If the slice is all keys, the block writes the output.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_split(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                 __half* __restrict__ o, float* __restrict__ part_o, float2* __restrict__ part_ml, int R, int S,
                 float scale) {
    __shared__ float2 ml_of[WALKERS];
    __shared__ float total_of[WALKERS][D];
    const size_t group = blockIdx.z;
    const int first_head = blockIdx.x * HEADS;
    const int walker = threadIdx.x / LANES;
    const int channel = threadIdx.x % LANES * OWN;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);
    k += group * S * D + channel;
    v += group * S * D + channel;

    // Heads that do not exist are copies of the last one. Scores are in units of log2.
    float query[HEADS][OWN];
    float total[HEADS][OWN] = {};
    float largest[HEADS];
    float mass[HEADS] = {};
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        const int head = min(first_head + h, R - 1);
        unpack(query[h], *reinterpret_cast<const uint4*>(q + (group * R + head) * D + channel));
#pragma unroll
        for (int i = 0; i < OWN; ++i) query[h][i] *= scale * LOG2_E;
        largest[h] = -INFINITY;
    }

    // All lanes of a warp go through as many keys, because they meet in the shuffles.
    for (int first = begin; first < end; first += WALKERS * AHEAD) {
        uint4 keys[AHEAD];
        uint4 values[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
            const int key = min(first + j * WALKERS + walker, end - 1);
            keys[j] = *reinterpret_cast<const uint4*>(k + size_t(key) * D);
            values[j] = *reinterpret_cast<const uint4*>(v + size_t(key) * D);
        }
        float score[HEADS][AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
            float key[OWN];
            unpack(key, keys[j]);
            const bool exists = first + j * WALKERS + walker < end;
#pragma unroll
            for (int h = 0; h < HEADS; ++h) {
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < OWN; ++i) sum += query[h][i] * key[i];
#pragma unroll
                for (int step = 1; step < LANES; step *= 2) sum += __shfl_xor_sync(ALL, sum, step);
                score[h][j] = exists ? sum : -INFINITY;
            }
        }
#pragma unroll
        for (int h = 0; h < HEADS; ++h) {
            float grown = largest[h];
#pragma unroll
            for (int j = 0; j < AHEAD; ++j) grown = fmaxf(grown, score[h][j]);
            // A walker without any key so far has nothing to rescale.
            const float base = grown == -INFINITY ? 0.0f : grown;
            const float keep = exp2f(largest[h] - base);
            largest[h] = grown;
            mass[h] *= keep;
#pragma unroll
            for (int i = 0; i < OWN; ++i) total[h][i] *= keep;
#pragma unroll
            for (int j = 0; j < AHEAD; ++j) {
                score[h][j] = exp2f(score[h][j] - base);
                mass[h] += score[h][j];
            }
        }
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
            float value[OWN];
            unpack(value, values[j]);
#pragma unroll
            for (int h = 0; h < HEADS; ++h) {
#pragma unroll
                for (int i = 0; i < OWN; ++i) total[h][i] += score[h][j] * value[i];
            }
        }
    }

    // Thread = channel: joins the walkers' sums, one head after another.
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        __syncthreads();  // the last head's sums may still be read
        if (threadIdx.x % LANES == 0) ml_of[walker] = make_float2(largest[h], mass[h]);
#pragma unroll
        for (int i = 0; i < OWN; ++i) total_of[walker][channel + i] = total[h][i];
        __syncthreads();
        if (first_head + h >= R) break;
        float top = -INFINITY;
#pragma unroll
        for (int w = 0; w < WALKERS; ++w) top = fmaxf(top, ml_of[w].x);
        float sum = 0.0f;
        float all = 0.0f;
#pragma unroll
        for (int w = 0; w < WALKERS; ++w) {
            const float2 ml = ml_of[w];
            const float factor = ml.y == 0.0f ? 0.0f : exp2f(ml.x - top);
            all += factor * ml.y;
            sum += factor * total_of[w][threadIdx.x];
        }
        const size_t row = group * R + first_head + h;
        if (gridDim.y == 1) {
            o[row * D + threadIdx.x] = __float2half_rn(sum / all);
            continue;
        }
        const size_t part = row * gridDim.y + blockIdx.y;
        part_o[part * D + threadIdx.x] = sum;
        if (threadIdx.x == 0) part_ml[part] = make_float2(top, all);
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

// Block = query head, row of threads = slice: brings the slices to the largest of their maxima and adds
// them up in order. With one slice the output is already there.
extern "C" __global__ void __launch_bounds__(32 * MOST_SLICES)
    decode_fuse(const float4* __restrict__ part_o, const float2* __restrict__ part_ml,
                __half2* __restrict__ o) {
    __shared__ float4 scaled[MOST_SLICES][D / 4];
    const int slices = blockDim.y;
    if (slices == 1) return;
    const int lane = threadIdx.x;
    const int slice = threadIdx.y;
    const size_t first = size_t(blockIdx.x) * slices;
    const float4 sum = part_o[(first + slice) * (D / 4) + lane];

    // Lane = slice: every warp finds the common scale and mass for itself.
    const float2 ml = lane < slices ? part_ml[first + lane] : make_float2(-INFINITY, 0.0f);
    const float factor = exp2f(ml.x - warp_max(ml.x));
    const float mass = warp_sum(factor * ml.y);
    const float own = __shfl_sync(ALL, factor, slice) / mass;
    scaled[slice][lane] = make_float4(own * sum.x, own * sum.y, own * sum.z, own * sum.w);
    __syncthreads();
    if (slice > 0) return;

    float4 total = scaled[0][lane];
    for (int s = 1; s < slices; ++s) {
        total.x += scaled[s][lane].x;
        total.y += scaled[s][lane].y;
        total.z += scaled[s][lane].z;
        total.w += scaled[s][lane].w;
    }
    __half2* to = o + size_t(blockIdx.x) * (D / 2) + 2 * lane;
    to[0] = __floats2half2_rn(total.x, total.y);
    to[1] = __floats2half2_rn(total.z, total.w);
}
