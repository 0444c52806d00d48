/*---
[idea]
title = "cut long rows into slices until the device is full"
hypothesis = """
Four rows are four blocks. Slices of a row are blocks of their own: the first launch leaves eight keys of \
each slice, the second finds the best eight among them. Rows that are short, or many, stay whole, and the \
first launch writes their results."""
gain = [1.0, 6.0]

[step]
phase = "memory"
sweep = ["THREADS", "CTAS_PER_SM"]

[[launch]]
kernel = "topk_of_slices"
grid = ["max(1, min(min(32, cdiv(C, 16 * THREADS)), CTAS_PER_SM * SM_COUNT / R))", "R"]
block = ["THREADS"]
args = ["x", "keys", "values", "columns", "C"]

[[launch]]
kernel = "topk_of_rows"
grid = ["R"]
block = [32, "max(1, min(min(32, cdiv(C, 16 * THREADS)), CTAS_PER_SM * SM_COUNT / R))"]
args = ["keys", "values", "columns"]

[workspace.keys]
dtype = "i64"
shape = ["R", "max(1, min(min(32, cdiv(C, 16 * THREADS)), CTAS_PER_SM * SM_COUNT / R))", "K"]

[tunables.THREADS]
value = 128
choices = [64, 128, 256]
[tunables.CTAS_PER_SM]
value = 2
choices = [1, 2, 4]
---*/
constexpr int K = 8;
constexpr int WARPS = THREADS / 32;
constexpr int MOST_SLICES = 32;  // a lane for each in the second launch
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

// Calls `write` with the K largest keys of the lists of WARPS warps, in order.
template <int WARPS, class Write>
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

struct Result {
    float* values;
    int* columns;
    __device__ void operator()(int k, Key key) const {
        values[k] = value_of(key);
        columns[k] = column_of(key);
    }
};

// Block (x, y): slice x of row y. If the slice is the whole row, its keys are the result.
extern "C" __global__ void __launch_bounds__(THREADS)
    topk_of_slices(const float* __restrict__ x, Key* __restrict__ keys, float* __restrict__ values,
                   int* __restrict__ columns, int C) {
    // A multiple of four, so that all slices of a row begin as aligned as the row.
    const int slice = ((C + gridDim.x - 1) / gridDim.x + 3) / 4 * 4;
    const int begin = min(int(blockIdx.x) * slice, C);
    const size_t row = blockIdx.y;
    Key list[K] = {};
    walk(list, x + row * C, begin, min(begin + slice, C), C % 4 == 0);
    if (gridDim.x == 1) {
        take_best<WARPS>(list, Result{values + row * K, columns + row * K});
    } else {
        Key* const own = keys + (row * gridDim.x + blockIdx.x) * K;
        take_best<WARPS>(list, [=](int k, Key key) { own[k] = key; });
    }
}

// Block = row. Its first warp joins the slices' lists, a lane to each; the others are there only so that the
// number of slices is known.
extern "C" __global__ void __launch_bounds__(32 * MOST_SLICES)
    topk_of_rows(const Key* __restrict__ keys, float* __restrict__ values, int* __restrict__ columns) {
    const int slices = blockDim.y;
    if (slices == 1 || threadIdx.y > 0) return;  // with one slice the result is already there
    const size_t row = blockIdx.x;
    Key list[K] = {};
    if (threadIdx.x < slices) {
#pragma unroll
        for (int k = 0; k < K; ++k) list[k] = keys[(row * slices + threadIdx.x) * K + k];
    }
    take_best<1>(list, Result{values + row * K, columns + row * K});
}
