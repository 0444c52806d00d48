/*---
[idea]
title = "one launch: read once, hold the slice in registers, meet at a barrier of the grid"
hypothesis = """
Between the two launches every slice is forgotten and read again. If all blocks are resident at once, they \
can wait for each other inside one launch, with their elements still in registers: the input is read once, \
and one launch is saved. What a block cannot hold is read a second time."""
gain = [1.05, 1.6]

[step]
phase = "memory"
sweep = ["THREADS", "CTAS_PER_SM"]

[[launch]]
kernel = "softmax"
cooperative = true
grid = [
  "max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))",
  "min(R, max(1, CTAS_PER_SM * SM_COUNT / max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))))",
]
block = ["THREADS"]
args = ["x", "sums", "y", "R", "C"]

[workspace.sums]
dtype = "f32"
shape = ["R", "max(1, min(cdiv(C, 4 * THREADS), CTAS_PER_SM * SM_COUNT / R))", "2"]

[tunables.THREADS]
value = 256
choices = [128, 256, 512]
[tunables.CTAS_PER_SM]
value = 2
choices = [1, 2]
---*/
// The time model does not know waiting: of the loop in which a block asks whether the last block has come, it counts
// one round. What the barrier of the grid costs on a GPU was not measured.
//
// A group of blocks takes a row, and the groups take the rows in rounds. All blocks go through as many
// rounds, because each meets all others at the barrier.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

constexpr int HELD = 8;  // pieces of four elements that a thread holds
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
    __syncthreads();  // the last sums may still be read
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
    softmax(const Piece* __restrict__ x, Sum* sums, float4* __restrict__ y, int R, int C) {
    const int pieces = C / 4;
    const int slices = gridDim.x;
    const int slice = blockIdx.x;
    const int stride = slices * THREADS;
    const int begin = slice * THREADS + threadIdx.x;

    for (int first_row = 0; first_row < R; first_row += gridDim.y) {
        const int row = first_row + blockIdx.y;
        const bool exists = row < R;
        const Piece* from = x + size_t(row) * pieces;
        float4* to = y + size_t(row) * pieces;
        Piece held[HELD];
        Sum sum = {-INFINITY, 0.0f};
        if (exists) {
#pragma unroll
            for (int i = 0; i < HELD; ++i) {
                if (begin + i * stride < pieces) held[i] = from[begin + i * stride];
            }
#pragma unroll
            for (int i = 0; i < HELD; ++i) {
                if (begin + i * stride < pieces) sum = add_piece(sum, held[i]);
            }
            for (int p = begin + HELD * stride; p < pieces; p += stride) sum = add_piece(sum, from[p]);
        }
        sum = join_block(sum);
        if (slices > 1) {
            if (exists && threadIdx.x == 0) sums[size_t(row) * slices + slice] = sum;
            cooperative_groups::this_grid().sync();
            sum = {-INFINITY, 0.0f};
            if (exists) {
                for (int s = threadIdx.x; s < slices; s += THREADS) {
                    sum = join(sum, sums[size_t(row) * slices + s]);
                }
            }
            sum = join_block(sum);
        }
        if (!exists) continue;
        const float inverse = 1.0f / sum.mass;
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            if (begin + i * stride < pieces) to[begin + i * stride] = normalise(held[i], sum.largest, inverse);
        }
        for (int p = begin + HELD * stride; p < pieces; p += stride) {
            to[p] = normalise(from[p], sum.largest, inverse);
        }
    }
}
