/*---
[idea]
title = "cut rows into slices until the device is full"
hypothesis = """
Four rows are four blocks, and 54 of 58 multiprocessors wait. Slices of a row are blocks of their own: a \
first launch leaves each slice's maximum and mass, a second one joins those of its row, a few numbers, and \
normalises its slice. The input is read twice from memory, unless the cache keeps it, and a launch is added. \
Where there are rows enough, a row stays whole, and the first launch writes its outputs."""
gain = [1.0, 4.0]

[step]
phase = "memory"
sweep = ["THREADS", "CTAS_PER_SM"]

[[launch]]
kernel = "softmax_sums"
grid = ["max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))", "R"]
block = ["THREADS"]
args = ["x", "sums", "y", "C"]

[[launch]]
kernel = "softmax_quotients"
grid = ["max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))", "R"]
block = ["THREADS"]
args = ["x", "sums", "y", "C"]

[workspace.sums]
dtype = "f32"
shape = ["R", "max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))", "2"]

[tunables.THREADS]
value = 256
choices = [128, 256, 512]
[tunables.CTAS_PER_SM]
value = 4
choices = [2, 4]
---*/
#include <cuda_fp16.h>

constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

// Copied by one access of 8 bytes. An array of __half2 is copied element by element, by accesses of 4 bytes.
struct __align__(8) Piece {
    uint2 bits;
    __device__ __half2& pair(int i) { return reinterpret_cast<__half2*>(&bits)[i]; }
    __device__ __half2 pair(int i) const { return reinterpret_cast<const __half2*>(&bits)[i]; }
};

// The largest element of a part of a row, and the sum of the exponentials relative to it.
struct Sum {
    float largest;
    float mass;
};

__device__ float power(float x, float largest) { return exp2f((x - largest) * LOG2_E); }

// Two parts of a row as one. A part without elements has no mass, whatever its maximum is relative to.
__device__ Sum join(Sum a, Sum b) {
    const float largest = fmaxf(a.largest, b.largest);
    const float of_a = a.mass == 0.0f ? 0.0f : a.mass * power(a.largest, largest);
    const float of_b = b.mass == 0.0f ? 0.0f : b.mass * power(b.largest, largest);
    return {largest, of_a + of_b};
}

__device__ Sum join_lane(Sum sum, int step) {
    return join(sum, {__shfl_xor_sync(ALL, sum.largest, step), __shfl_xor_sync(ALL, sum.mass, step)});
}

__device__ Sum join_block(Sum sum) {
    __shared__ Sum of_warp[WARPS];
    for (int step = 16; step > 0; step /= 2) sum = join_lane(sum, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < WARPS ? of_warp[threadIdx.x % 32] : Sum{-INFINITY, 0.0f};
    for (int step = 16; step > 0; step /= 2) sum = join_lane(sum, step);
    return sum;
}

__device__ Sum add_piece(Sum sum, Piece piece) {
    float element[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2 two = __half22float2(piece.pair(i));
        element[2 * i] = two.x;
        element[2 * i + 1] = two.y;
    }
    float largest = sum.largest;
#pragma unroll
    for (int i = 0; i < 4; ++i) largest = fmaxf(largest, element[i]);
    // Where all elements so far are -inf, their exponentials are zeros and no NaN.
    const float base = largest == -INFINITY ? 0.0f : largest;
    float mass = sum.mass == 0.0f ? 0.0f : sum.mass * power(sum.largest, base);
#pragma unroll
    for (int i = 0; i < 4; ++i) mass += power(element[i], base);
    return {largest, mass};
}

__device__ float4 normalise(Piece piece, float largest, float inverse) {
    const float2 a = __half22float2(piece.pair(0));
    const float2 b = __half22float2(piece.pair(1));
    return make_float4(power(a.x, largest) * inverse, power(a.y, largest) * inverse,
                       power(b.x, largest) * inverse, power(b.y, largest) * inverse);
}

// Block (x, y): slice x of row y. Slices are strided by their number, so that they differ by one piece. A
// slice that is the whole row is normalised at once.
extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_sums(const Piece* __restrict__ x, Sum* __restrict__ sums, float4* __restrict__ y, int C) {
    const int pieces = C / 4;
    const Piece* from = x + size_t(blockIdx.y) * pieces;
    float4* to = y + size_t(blockIdx.y) * pieces;
    Sum sum = {-INFINITY, 0.0f};
    for (int p = blockIdx.x * THREADS + threadIdx.x; p < pieces; p += gridDim.x * THREADS) {
        sum = add_piece(sum, from[p]);
    }
    sum = join_block(sum);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) sums[size_t(blockIdx.y) * gridDim.x + blockIdx.x] = sum;
        return;
    }
    const float inverse = 1.0f / sum.mass;
    for (int p = threadIdx.x; p < pieces; p += THREADS) to[p] = normalise(from[p], sum.largest, inverse);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_quotients(const Piece* __restrict__ x, const Sum* __restrict__ sums, float4* __restrict__ y, int C) {
    if (gridDim.x == 1) return;  // the outputs are already there
    const int pieces = C / 4;
    const Piece* from = x + size_t(blockIdx.y) * pieces;
    float4* to = y + size_t(blockIdx.y) * pieces;
    Sum sum = {-INFINITY, 0.0f};
    for (int s = threadIdx.x; s < gridDim.x; s += THREADS) {
        sum = join(sum, sums[size_t(blockIdx.y) * gridDim.x + s]);
    }
    sum = join_block(sum);
    const float inverse = 1.0f / sum.mass;
    for (int p = blockIdx.x * THREADS + threadIdx.x; p < pieces; p += gridDim.x * THREADS) {
        to[p] = normalise(from[p], sum.largest, inverse);
    }
}
