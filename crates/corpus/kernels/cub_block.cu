// Block and warp primitives of CUB.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

constexpr int THREADS = 64;
constexpr int ITEMS = 4;

extern "C" __global__ void cub_reduce(const float* x, float* total, float* largest, int n) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = 0.0f, top = -3.0e38f;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        sum += x[i];
        top = fmaxf(top, x[i]);
    }
    const float all = Reduce(storage).Sum(sum);
    __syncthreads();
    const float most = Reduce(storage).Reduce(top, [](float a, float b) { return a > b ? a : b; });
    if (threadIdx.x == 0) {
        total[blockIdx.x] = all;
        largest[blockIdx.x] = most;
    }
}

extern "C" __global__ void cub_scan(const int* in, int* out, int* sums) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<int, THREADS>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } storage;
    int items[ITEMS], total;
    Load(storage.load).Load(in + blockIdx.x * THREADS * ITEMS, items);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(items, items, total);
    __syncthreads();
    Store(storage.store).Store(out + blockIdx.x * THREADS * ITEMS, items);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void cub_sort(unsigned* keys, int* values) {
    using Sort = cub::BlockRadixSort<unsigned, THREADS, ITEMS, int>;
    __shared__ typename Sort::TempStorage storage;
    unsigned key[ITEMS];
    int value[ITEMS];
    for (int i = 0; i < ITEMS; ++i) {
        const int at = (blockIdx.x * THREADS + threadIdx.x) * ITEMS + i;
        key[i] = keys[at];
        value[i] = values[at];
    }
    Sort(storage).Sort(key, value);
    for (int i = 0; i < ITEMS; ++i) {
        const int at = (blockIdx.x * THREADS + threadIdx.x) * ITEMS + i;
        keys[at] = key[i];
        values[at] = value[i];
    }
}

extern "C" __global__ void cub_warp(const double* x, double* sums, int* ranks, const int* flags) {
    using Reduce = cub::WarpReduce<double>;
    using Scan = cub::WarpScan<int>;
    __shared__ typename Reduce::TempStorage reduce[THREADS / 32];
    __shared__ typename Scan::TempStorage scan[THREADS / 32];
    const int i = blockIdx.x * THREADS + threadIdx.x, warp = threadIdx.x / 32;
    const double sum = Reduce(reduce[warp]).Sum(x[i]);
    if (threadIdx.x % 32 == 0) sums[i / 32] = sum;
    int rank;
    Scan(scan[warp]).ExclusiveSum(flags[i], rank);
    ranks[i] = rank;
}
