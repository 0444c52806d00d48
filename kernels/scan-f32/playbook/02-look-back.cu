/*---
[idea]
title = "one pass: each block looks back at those before it"
hypothesis = """
Reduce-then-scan reads every element twice and needs three launches. A block that publishes the sum of \
its elements, and looks back over the published sums until it meets a block that knows everything before \
it, reads once and writes once, in a single launch."""
gain = [1.2, 2.0]

[step]
phase = "passes"
sweep = ["THREADS"]

[[launch]]
memset = "published"
byte = 0

[[launch]]
memset = "next"
byte = 0

[[launch]]
kernel = "scan"
grid = ["cdiv(N, 8 * THREADS)"]
block = ["THREADS"]
args = ["x", "y", "published", "next", "N"]

[workspace.published]
dtype = "i64"
shape = ["cdiv(N, 8 * THREADS)"]
[workspace.next]
dtype = "i32"
shape = ["1"]

[tunables.THREADS]
value = 256
choices = [128, 256]
---*/
// Blocks are numbered by a counter in the order in which they start, so that whatever a block waits for
// has started before it. A block's word in `published` holds a state above a sum, and is read and
// written as a whole: nothing else has to be ordered with it.
constexpr int ROUND = 4 * THREADS;
constexpr int BLOCK = 2 * ROUND;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr unsigned OWN = 1;     // the sum of the block's own elements
constexpr unsigned PREFIX = 2;  // the sum of these and of everything before

__device__ void publish(unsigned long long* word, unsigned state, float sum) {
    const unsigned long long value = static_cast<unsigned long long>(state) << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
}

__device__ unsigned long long read(const unsigned long long* word) {
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(word))
                 : "memory");
    return value;
}

__device__ float4 load(const float* x, int n, int N) {
    if (n + 3 < N) return *reinterpret_cast<const float4*>(x + n);
    return make_float4(n < N ? x[n] : 0.0f, n + 1 < N ? x[n + 1] : 0.0f, n + 2 < N ? x[n + 2] : 0.0f,
                       0.0f);
}

__device__ float scan_warp(float value) {
    const int lane = threadIdx.x % 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const float before = __shfl_up_sync(ALL, value, distance);
        if (lane >= distance) value += before;
    }
    return value;
}

// The sum of everything before `block`, added up by one warp, 32 blocks at a time.
__device__ float look_back(const unsigned long long* published, int block) {
    float before = 0.0f;
    for (int last = block - 1;; last -= 32) {
        const int other = last - int(threadIdx.x);
        unsigned long long word = static_cast<unsigned long long>(PREFIX) << 32;  // nothing before block 0
        if (other >= 0) {
            do {
                word = read(published + other);
            } while (word >> 32 == 0);
        }
        const unsigned prefixes = __ballot_sync(ALL, word >> 32 == PREFIX);
        // The nearest block that knows everything before it ends the walk.
        const int nearest = __ffs(prefixes) - 1;
        float sum = nearest < 0 || int(threadIdx.x) <= nearest ? __uint_as_float(unsigned(word)) : 0.0f;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
        before += sum;
        if (nearest >= 0) return before;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const float* __restrict__ x, float* __restrict__ y, unsigned long long* published,
         unsigned* next, int N) {
    __shared__ float of_warp[2][WARPS];
    __shared__ float before_block;
    __shared__ int number;
    if (threadIdx.x == 0) number = atomicAdd(next, 1);
    __syncthreads();
    const int block = number;

    float4 four[2];
    float sum[2];
#pragma unroll
    for (int round = 0; round < 2; ++round) {
        four[round] = load(x, block * BLOCK + round * ROUND + 4 * threadIdx.x, N);
        four[round].y += four[round].x;
        four[round].z += four[round].y;
        four[round].w += four[round].z;
        sum[round] = scan_warp(four[round].w);
        if (threadIdx.x % 32 == 31) of_warp[round][threadIdx.x / 32] = sum[round];
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        float own = 0.0f;
        for (int w = 0; w < 2 * WARPS; ++w) own += of_warp[w / WARPS][w % WARPS];
        if (block > 0 && threadIdx.x == 0) publish(published + block, OWN, own);
        const float before = block > 0 ? look_back(published, block) : 0.0f;
        if (threadIdx.x == 0) {
            publish(published + block, PREFIX, before + own);
            before_block = before;
        }
    }
    __syncthreads();

    float carried = before_block;
#pragma unroll
    for (int round = 0; round < 2; ++round) {
        const int n = block * BLOCK + round * ROUND + 4 * threadIdx.x;
        float before = carried;
        for (int w = 0; w < WARPS; ++w) {
            if (w < threadIdx.x / 32) before += of_warp[round][w];
            carried += of_warp[round][w];
        }
        const float above = __shfl_up_sync(ALL, sum[round], 1);
        if (threadIdx.x % 32 > 0) before += above;
        const float4 result = make_float4(before + four[round].x, before + four[round].y,
                                          before + four[round].z, before + four[round].w);
        if (n + 3 < N) {
            *reinterpret_cast<float4*>(y + n) = result;
        } else {
            if (n < N) y[n] = result.x;
            if (n + 1 < N) y[n + 1] = result.y;
            if (n + 2 < N) y[n + 2] = result.z;
        }
    }
}
