/*---
[idea]
title = "eight channels an access, the token kept in registers"
hypothesis = """
One f16 per access moves 64 bytes per warp and instruction; sixteen bytes per thread move 512. A thread \
that keeps its sums in registers needs no second read of the token. The number of threads follows from \
the length of a token."""
gain = [1.2, 3.0]

[step]
phase = "memory"
sweep = ["HELD"]

[[launch]]
kernel = "rmsnorm"
grid = ["T"]
block = ["32 * min(32, cdiv(D, 256 * HELD))"]
args = ["x", "residual", "weight", "y", "eps", "D"]

[tunables.HELD]
value = 1
choices = [1, 2, 4]
---*/
// A thread holds HELD pieces of eight channels in registers. The channels of a token that no thread
// can hold are read a second time, by the thread that wrote them.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

// Eight channels of x, weight and y.
// Copied by one access of 16 bytes. An array of __half2 is copied element by element, by accesses of 4 bytes.
struct __align__(16) Halves {
    uint4 bits;
    __device__ __half2& pair(int i) { return reinterpret_cast<__half2*>(&bits)[i]; }
    __device__ __half2 pair(int i) const { return reinterpret_cast<const __half2*>(&bits)[i]; }
};

// Eight channels of the residual.
struct __align__(16) Sums {
    float of[8];
};

// Adds one value of every thread of the block; all threads get the sum.
__device__ float add_block(float value) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    const int warps = blockDim.x / 32;
    if (warps == 1) return value;
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int w = 1; w < warps; ++w) value += of_warp[w];
    return value;
}

__device__ Sums load_sums(const Sums* from) {
    Sums sums;
    const float4* halves = reinterpret_cast<const float4*>(from);
    *reinterpret_cast<float4*>(sums.of) = halves[0];
    *reinterpret_cast<float4*>(sums.of + 4) = halves[1];
    return sums;
}

// Adds eight channels of x to the residual and leaves the sums in `sums` too; returns the sum of their
// squares.
__device__ float add_channels(const Halves* x, Sums* residual, Sums& sums) {
    const Halves added = *x;
    sums = load_sums(residual);
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 a = __half22float2(added.pair(i));
        sums.of[2 * i] += a.x;
        sums.of[2 * i + 1] += a.y;
        squares += sums.of[2 * i] * sums.of[2 * i] + sums.of[2 * i + 1] * sums.of[2 * i + 1];
    }
    float4* halves = reinterpret_cast<float4*>(residual);
    halves[0] = *reinterpret_cast<const float4*>(sums.of);
    halves[1] = *reinterpret_cast<const float4*>(sums.of + 4);
    return squares;
}

__device__ void write_channels(Halves* y, const Halves* weight, const Sums& sums, float inverse) {
    const Halves w = *weight;
    Halves scaled;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 factor = __half22float2(w.pair(i));
        scaled.pair(i) = __floats2half2_rn(sums.of[2 * i] * inverse * factor.x,
                                           sums.of[2 * i + 1] * inverse * factor.y);
    }
    *y = scaled;
}

extern "C" __global__ void __launch_bounds__(1024)
    rmsnorm(const Halves* __restrict__ x, Sums* __restrict__ residual,
            const Halves* __restrict__ weight, Halves* __restrict__ y, float eps, int D) {
    const int pieces = D / 8;
    const size_t first = size_t(blockIdx.x) * pieces;
    const int threads = blockDim.x;

    Sums held[HELD];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = threadIdx.x + i * threads;
        if (p < pieces) squares += add_channels(x + first + p, residual + first + p, held[i]);
    }
    for (int p = threadIdx.x + HELD * threads; p < pieces; p += threads) {
        Sums sums;
        squares += add_channels(x + first + p, residual + first + p, sums);
    }
    const float inverse = rsqrtf(add_block(squares) / D + eps);

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int p = threadIdx.x + i * threads;
        if (p < pieces) write_channels(y + first + p, weight + p, held[i], inverse);
    }
    for (int p = threadIdx.x + HELD * threads; p < pieces; p += threads) {
        write_channels(y + first + p, weight + p, load_sums(residual + first + p), inverse);
    }
}
