/*---
[idea]
title = "read the row once, eight channels an access"
hypothesis = """
Three walks read every channel three times, two bytes at a time. Threads that hold the row in registers, \
in pieces of sixteen bytes, read it once and still subtract the mean before they square. Shuffles add \
within a warp, and the number of threads follows from the length of a row."""
gain = [1.5, 4.0]

[step]
phase = "memory"
sweep = ["HELD"]

[[launch]]
kernel = "layernorm"
grid = ["R"]
block = ["32 * min(32, cdiv(C, 256 * HELD))"]
args = ["x", "gamma", "beta", "y", "eps", "C"]

[tunables.HELD]
value = 2
choices = [1, 2]
---*/
// A thread holds HELD pieces of eight channels. What a block of 1,024 threads cannot hold is read from
// memory in each of the three walks.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

// Copied by one access of 16 bytes. An array of __half2 is copied element by element, by accesses of 4 bytes.
struct __align__(16) Piece {
    uint4 bits;
    __device__ __half2& pair(int i) { return reinterpret_cast<__half2*>(&bits)[i]; }
    __device__ __half2 pair(int i) const { return reinterpret_cast<const __half2*>(&bits)[i]; }
};

// Adds one value of every thread of the block; all threads get the sum.
__device__ float add_block(float value) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    const int warps = blockDim.x / 32;
    if (warps == 1) return value;
    __syncthreads();  // the last sum may still be read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int w = 1; w < warps; ++w) value += of_warp[w];
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
              const Piece* __restrict__ beta, Piece* __restrict__ y, float eps, int C) {
    const int pieces = C / 8;
    const int threads = blockDim.x;
    const Piece* from = x + size_t(blockIdx.x) * pieces;
    Piece* to = y + size_t(blockIdx.x) * pieces;

    Piece held[HELD];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = threadIdx.x + i * threads;
        if (p < pieces) {
            held[i] = from[p];
            sum += add_piece(held[i]);
        }
    }
    for (int p = threadIdx.x + HELD * threads; p < pieces; p += threads) sum += add_piece(from[p]);
    const float mean = add_block(sum) / C;

    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        if (threadIdx.x + i * threads < pieces) squares += add_squares(held[i], mean);
    }
    for (int p = threadIdx.x + HELD * threads; p < pieces; p += threads) {
        squares += add_squares(from[p], mean);
    }
    const float inverse = rsqrtf(add_block(squares) / C + eps);

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = threadIdx.x + i * threads;
        if (p < pieces) to[p] = normalise(held[i], gamma[p], beta[p], mean, inverse);
    }
    for (int p = threadIdx.x + HELD * threads; p < pieces; p += threads) {
        to[p] = normalise(from[p], gamma[p], beta[p], mean, inverse);
    }
}
