/*---
[idea]
title = "one walk with a list of eight in registers"
hypothesis = """
Eight walks read the row eight times. A thread that keeps the eight best of its own share, sorted, in \
registers, walks once. Most elements lose against the last of the list and cost one comparison. Then the \
block takes the best of the lists' heads eight times, and only the list that it came from moves up."""
gain = [2.0, 6.0]

[step]
phase = "memory"
sweep = ["THREADS"]

[[launch]]
kernel = "topk"
grid = ["R"]
block = ["THREADS"]
args = ["x", "values", "columns", "C"]

[tunables.THREADS]
value = 128
choices = [64, 128, 256, 512]
---*/
constexpr int K = 8;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

struct Found {
    float value;
    int column;
};

__device__ bool comes_before(Found a, Found b) {
    return a.value > b.value || (a.value == b.value && a.column < b.column);
}

// The first of the lanes' finds; all lanes get it.
__device__ Found first_of_warp(Found found) {
    for (int step = 16; step > 0; step /= 2) {
        const Found other = {__shfl_xor_sync(ALL, found.value, step), __shfl_xor_sync(ALL, found.column, step)};
        if (comes_before(other, found)) found = other;
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns, int C) {
    __shared__ Found of_warp[2][WARPS];
    const float* from = x + size_t(blockIdx.x) * C;

    Found list[K];  // sorted; columns of places without an element are higher than any
#pragma unroll
    for (int k = 0; k < K; ++k) list[k] = {-INFINITY, 0x7fffffff};
    for (int c = threadIdx.x; c < C; c += THREADS) {
        const Found found = {from[c], c};
        if (!comes_before(found, list[K - 1])) continue;
        list[K - 1] = found;
#pragma unroll
        for (int k = K - 1; k > 0; --k) {
            if (!comes_before(list[k], list[k - 1])) continue;
            const Found better = list[k];
            list[k] = list[k - 1];
            list[k - 1] = better;
        }
    }

    for (int k = 0; k < K; ++k) {
        Found best = first_of_warp(list[0]);
        if (WARPS > 1) {
            // Two sets of places, so that one barrier separates writing a set from writing it again.
            if (threadIdx.x % 32 == 0) of_warp[k % 2][threadIdx.x / 32] = best;
            __syncthreads();
            best = of_warp[k % 2][0];
            for (int w = 1; w < WARPS; ++w) {
                if (comes_before(of_warp[k % 2][w], best)) best = of_warp[k % 2][w];
            }
        }
        if (list[0].column == best.column) {
#pragma unroll
            for (int i = 0; i < K - 1; ++i) list[i] = list[i + 1];
            list[K - 1] = {-INFINITY, 0x7fffffff};
        }
        if (threadIdx.x == 0) {
            values[size_t(blockIdx.x) * K + k] = best.value;
            columns[size_t(blockIdx.x) * K + k] = best.column;
        }
    }
}
