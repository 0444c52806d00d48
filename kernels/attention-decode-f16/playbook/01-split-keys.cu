/*---
[idea]
title = "split the keys over blocks"
hypothesis = """
One query has as many blocks as there are heads, 16 of 58 multiprocessors in the long conversation. Slices \
of the keys are blocks of their own; each leaves its unnormalised sum, maximum and mass, and a second launch \
joins them by log-sum-exp."""
gain = [2.0, 8.0]

[step]
phase = "bandwidth"
sweep = ["CTAS_PER_SM"]

[[launch]]
kernel = "decode_split"
grid = ["R", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * R)))", "B * G"]
block = [128]
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "decode_fuse"
grid = ["B * G * R"]
block = [32, "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * R)))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B * G * R", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * R)))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * G * R", "max(1, min(min(32, cdiv(S, 64)), CTAS_PER_SM * SM_COUNT / (B * G * R)))", "2"]

[tunables.CTAS_PER_SM]
value = 4
choices = [2, 4, 8]
---*/
#include <cuda_fp16.h>

constexpr int D = 128;
constexpr int MOST_SLICES = 32;  // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

// Block (x, y, z): query head x of group z against slice y of the keys. If the slice is all keys, the block
// writes the output.
extern "C" __global__ void __launch_bounds__(D)
    decode_split(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                 __half* __restrict__ o, float* __restrict__ part_o, float2* __restrict__ part_ml, int S,
                 float scale) {
    __shared__ float query[D];
    __shared__ float score[D];
    const size_t group = blockIdx.z;
    const size_t row = group * gridDim.x + blockIdx.x;
    const int thread = threadIdx.x;
    // Rounding up may leave the last slices empty: they contribute a mass of zero.
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int end = min(int(blockIdx.y + 1) * slice, S);
    // Scores are in units of log2, so that a weight is a bare exp2.
    query[thread] = __half2float(q[row * D + thread]) * (scale * LOG2_E);

    float largest = -INFINITY;
    float mass = 0.0f;
    float total = 0.0f;
    for (int first = blockIdx.y * slice; first < end; first += D) {
        const int count = min(D, end - first);
        __syncthreads();  // the last scores may still be read
        if (thread < count) {
            const __half* key = k + (group * S + first + thread) * D;
            float sum = 0.0f;
            for (int d = 0; d < D; ++d) sum += query[d] * __half2float(key[d]);
            score[thread] = sum;
        }
        __syncthreads();
        float grown = largest;
        for (int j = 0; j < count; ++j) grown = fmaxf(grown, score[j]);
        const float keep = exp2f(largest - grown);
        largest = grown;
        mass *= keep;
        total *= keep;
        for (int j = 0; j < count; ++j) {
            const float weight = exp2f(score[j] - largest);
            mass += weight;
            total += weight * __half2float(v[(group * S + first + j) * D + thread]);
        }
    }
    if (gridDim.y == 1) {
        o[row * D + thread] = __float2half_rn(total / mass);
        return;
    }
    const size_t part = row * gridDim.y + blockIdx.y;
    part_o[part * D + thread] = total;
    if (thread == 0) part_ml[part] = make_float2(largest, mass);
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
