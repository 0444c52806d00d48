/*---
[idea]
title = "one walk for maximum and mass, four elements an access"
hypothesis = """
Three walks of two bytes an access are twelve accesses for four elements. Maximum and mass fit into one walk \
if the mass is kept relative to the largest element so far, and a piece of eight bytes holds four elements. \
That leaves two walks with a quarter of the accesses each, of which the second finds the row in a cache."""
gain = [2.0, 6.0]

[step]
phase = "memory"
sweep = ["THREADS"]

[[launch]]
kernel = "softmax"
grid = ["R"]
block = ["THREADS"]
args = ["x", "y", "C"]

[tunables.THREADS]
value = 512
choices = [256, 512, 1024]
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

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const Piece* __restrict__ x, float4* __restrict__ y, int C) {
    const int pieces = C / 4;
    const Piece* from = x + size_t(blockIdx.x) * pieces;
    float4* to = y + size_t(blockIdx.x) * pieces;

    Sum sum = {-INFINITY, 0.0f};
    for (int p = threadIdx.x; p < pieces; p += THREADS) sum = add_piece(sum, from[p]);
    sum = join_block(sum);
    const float inverse = 1.0f / sum.mass;
    for (int p = threadIdx.x; p < pieces; p += THREADS) to[p] = normalise(from[p], sum.largest, inverse);
}
