/*---
[idea]
title = "a value and its column as one integer, four elements an access"
hypothesis = """
Comparing pairs takes three comparisons and two selections. Packed into one word of 64 bits, whose order is \
the wanted one with ties included, a pair needs one comparison, and sorting is max and min. Four elements \
are loaded at once, and the largest of the four is compared first: on average nearly all groups of four \
lose against the last of the list."""
gain = [1.05, 1.6]

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

// Grows with the value and, among equal values, with a falling column. No element has the key 0.
typedef unsigned long long Key;

__device__ Key pack(float value, int column) {
    // The sum turns a negative zero, which is equal to zero, into zero.
    const unsigned bits = __float_as_uint(value + 0.0f);
    const unsigned ordered = bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
    return Key(ordered) << 32 | unsigned(~column);
}

__device__ float value_of(Key key) {
    const unsigned ordered = key >> 32;
    return __uint_as_float(ordered ^ (ordered >> 31 ? 0x80000000u : 0xffffffffu));
}

__device__ int column_of(Key key) { return ~int(unsigned(key)); }

// Puts a key that belongs before the last one of a sorted list into its place.
__device__ void insert(Key (&list)[K], Key key) {
    list[K - 1] = key;
#pragma unroll
    for (int k = K - 1; k > 0; --k) {
        const Key larger = max(list[k - 1], list[k]);
        list[k] = min(list[k - 1], list[k]);
        list[k - 1] = larger;
    }
}

// Writes the K largest keys of all the block's lists to `keys`, in order.
template <class Write>
__device__ void take_best(Key (&list)[K], Write write) {
    __shared__ Key of_warp[2][WARPS];
    for (int k = 0; k < K; ++k) {
        Key best = list[0];
        for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(ALL, best, step));
        if (WARPS > 1) {
            // Two sets of places, so that one barrier separates writing a set from writing it again.
            if (threadIdx.x % 32 == 0) of_warp[k % 2][threadIdx.x / 32] = best;
            __syncthreads();
            best = of_warp[k % 2][0];
            for (int w = 1; w < WARPS; ++w) best = max(best, of_warp[k % 2][w]);
        }
        if (list[0] == best) {
#pragma unroll
            for (int i = 0; i < K - 1; ++i) list[i] = list[i + 1];
            list[K - 1] = 0;
        }
        if (threadIdx.x == 0) write(k, best);
    }
}

__device__ void walk(Key (&list)[K], const float* from, int begin, int end, bool aligned) {
    if (!aligned) {
        for (int c = begin + threadIdx.x; c < end; c += THREADS) {
            const Key key = pack(from[c], c);
            if (key > list[K - 1]) insert(list, key);
        }
        return;
    }
    for (int c = begin + 4 * threadIdx.x; c < end; c += 4 * THREADS) {
        const float4 four = *reinterpret_cast<const float4*>(from + c);
        const Key keys[4] = {pack(four.x, c), pack(four.y, c + 1), pack(four.z, c + 2), pack(four.w, c + 3)};
        if (max(max(keys[0], keys[1]), max(keys[2], keys[3])) <= list[K - 1]) continue;
        for (int i = 0; i < 4; ++i) {
            if (keys[i] > list[K - 1]) insert(list, keys[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns, int C) {
    Key list[K] = {};
    walk(list, x + size_t(blockIdx.x) * C, 0, C, C % 4 == 0);
    const size_t first = size_t(blockIdx.x) * K;
    take_best(list, [=](int k, Key key) {
        values[first + k] = value_of(key);
        columns[first + k] = column_of(key);
    });
}
