/*---
[idea]
title = "several short rows to a block, a warp to each"
hypothesis = """
A row of 768 channels is three pieces for each lane of a warp. A warp of its own needs no barrier and no \
shared memory, and ROWS of them to a block leave fewer blocks to start. Rows that are too long for a warp \
are still given a whole block."""
gain = [1.0, 1.5]

[step]
phase = "memory"
sweep = ["ROWS"]

[[launch]]
kernel = "layernorm"
grid = ["cdiv(R, 1 + (ROWS - 1) * (1 - min(1, C / 1025)))"]
block = ["32 * max(ROWS, min(32, cdiv(C, 512)) * min(1, C / 1025))"]
args = ["x", "gamma", "beta", "y", "eps", "R", "C"]

[tunables.ROWS]
value = 4
choices = [2, 4, 8]
---*/
// Up to 1,024 channels a row is a warp's, ROWS rows to a block; a longer one is a whole block's. The
// threads of a row hold HELD pieces of eight channels each; what they cannot hold is read in each walk.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr int HELD = 4;
constexpr int LONGEST_OF_A_WARP = 1024;

// Copied by one access of 16 bytes. An array of __half2 is copied element by element, by accesses of 4 bytes.
struct __align__(16) Piece {
    uint4 bits;
    __device__ __half2& pair(int i) { return reinterpret_cast<__half2*>(&bits)[i]; }
    __device__ __half2 pair(int i) const { return reinterpret_cast<const __half2*>(&bits)[i]; }
};

// Adds one value of every thread of a row; all of them get the sum.
__device__ float add_row(float value, bool alone) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    if (alone) return value;
    __syncthreads();  // the last sum may still be read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    // Every warp adds the sums of all warps, a lane to each.
    value = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

__device__ float add_piece(Piece piece) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 two = __half22float2(piece.pair(i));
        sum += two.x + two.y;
    }
    return sum;
}

__device__ float add_squares(Piece piece, float mean) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 two = __half22float2(piece.pair(i));
        sum += (two.x - mean) * (two.x - mean) + (two.y - mean) * (two.y - mean);
    }
    return sum;
}

__device__ Piece normalise(Piece piece, Piece gamma, Piece beta, float mean,
                           float inverse) {
    Piece result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 two = __half22float2(piece.pair(i));
        const float2 g = __half22float2(gamma.pair(i));
        const float2 b = __half22float2(beta.pair(i));
        result.pair(i) = __floats2half2_rn((two.x - mean) * inverse * g.x + b.x,
                                           (two.y - mean) * inverse * g.y + b.y);
    }
    return result;
}

extern "C" __global__ void __launch_bounds__(1024)
    layernorm(const Piece* __restrict__ x, const Piece* __restrict__ gamma,
              const Piece* __restrict__ beta, Piece* __restrict__ y, float eps, int R, int C) {
    const bool alone = C <= LONGEST_OF_A_WARP;
    const int row = alone ? blockIdx.x * ROWS + threadIdx.x / 32 : blockIdx.x;
    // Warps without a row end here: where a warp has a row to itself, no barrier waits for them.
    if (row >= R) return;
    const int pieces = C / 8;
    const int threads = alone ? 32 : blockDim.x;
    const int thread = alone ? threadIdx.x % 32 : threadIdx.x;
    const Piece* from = x + size_t(row) * pieces;
    Piece* to = y + size_t(row) * pieces;

    Piece held[HELD];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = thread + i * threads;
        if (p < pieces) {
            held[i] = from[p];
            sum += add_piece(held[i]);
        }
    }
    for (int p = thread + HELD * threads; p < pieces; p += threads) sum += add_piece(from[p]);
    const float mean = add_row(sum, alone) / C;

    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        if (thread + i * threads < pieces) squares += add_squares(held[i], mean);
    }
    for (int p = thread + HELD * threads; p < pieces; p += threads) squares += add_squares(from[p], mean);
    const float inverse = rsqrtf(add_row(squares, alone) / C + eps);

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = thread + i * threads;
        if (p < pieces) to[p] = normalise(held[i], gamma[p], beta[p], mean, inverse);
    }
    for (int p = thread + HELD * threads; p < pieces; p += threads) {
        to[p] = normalise(from[p], gamma[p], beta[p], mean, inverse);
    }
}
