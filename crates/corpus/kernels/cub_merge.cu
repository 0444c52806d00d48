// Sorting by merges, of pairs with values of another width, which CUB moves about in registers that are valid in part.
#include <cub/block/block_merge_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>

constexpr int THREADS = 64;
constexpr int ITEMS = 3;

struct Less {
    template <typename T>
    __device__ bool operator()(const T& a, const T& b) const { return a < b; }
};

// Only the first `n` of a block's keys are there.
extern "C" __global__ void merge_sort_some(const int* keys, int* sorted, int n) {
    using Sort = cub::BlockMergeSort<int, THREADS, ITEMS>;
    __shared__ typename Sort::TempStorage storage;
    int key[ITEMS];
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x * ITEMS + i;
        if (at < n) key[i] = keys[at];
    }
    Sort(storage).Sort(key, Less(), n, 2147483647);
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x * ITEMS + i;
        if (at < n) sorted[at] = key[i];
    }
}

extern "C" __global__ void merge_sort_pairs(const short* keys, short* sorted, unsigned char* places) {
    using Sort = cub::BlockMergeSort<short, THREADS, ITEMS, unsigned char>;
    __shared__ typename Sort::TempStorage storage;
    short key[ITEMS];
    unsigned char place[ITEMS];
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x * ITEMS + i;
        key[i] = keys[at];
        place[i] = static_cast<unsigned char>(at);
    }
    Sort(storage).StableSort(key, place, Less());
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x * ITEMS + i;
        sorted[at] = key[i];
        places[at] = place[i];
    }
}

extern "C" __global__ void merge_sort_in_warps(const float* keys, float* sorted) {
    using Sort = cub::WarpMergeSort<float, ITEMS, 32>;
    __shared__ typename Sort::TempStorage storage[THREADS / 32];
    float key[ITEMS];
    for (int i = 0; i < ITEMS; ++i) key[i] = keys[threadIdx.x * ITEMS + i];
    Sort(storage[threadIdx.x / 32]).Sort(key, Less());
    for (int i = 0; i < ITEMS; ++i) sorted[threadIdx.x * ITEMS + i] = key[i];
}

// A structure with padding, kept in registers and in shared memory, of which only the fields are used.
struct Best {
    float value;
    short row;
    bool valid;
};

extern "C" __global__ void best_of_block(const float* x, int* row, float* value, int n) {
    __shared__ Best best[THREADS];
    const int t = threadIdx.x;
    Best mine;
    mine.valid = false;
    for (int i = t; i < n; i += THREADS)
        if (!mine.valid || x[i] > mine.value) mine = Best{x[i], static_cast<short>(i), true};
    best[t] = mine;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (t < step) {
            const Best other = best[t + step];
            if (other.valid && (!mine.valid || other.value > mine.value || (other.value == mine.value && other.row < mine.row))) mine = other;
            best[t] = mine;
        }
        __syncthreads();
    }
    if (t == 0 && mine.valid) {
        *row = mine.row;
        *value = mine.value;
    }
}
