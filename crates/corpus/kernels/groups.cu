// Reductions through cooperative groups: tiles, partitions by label, coalesced lanes, and the block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void group_sums(const int* x, int* of_tile, int* of_block, int n) {
    __shared__ int sums[8];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    const int i = block.group_index().x * block.size() + block.thread_rank();
    const int value = i < n ? x[i] : 0;
    const int small = cg::reduce(eight, value, cg::plus<int>());
    if (eight.thread_rank() == 0) of_tile[i / 8] = small;
    const int big = cg::reduce(warp, value, cg::plus<int>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = big;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        const int own = warp.thread_rank() < block.size() / 32 ? sums[warp.thread_rank()] : 0;
        const int all = cg::reduce(warp, own, cg::plus<int>());
        if (warp.thread_rank() == 0) of_block[block.group_index().x] = all;
    }
}

extern "C" __global__ void group_scan(const float* x, float* inclusive, float* largest, int* kept, int* places, float limit) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    inclusive[i] = cg::inclusive_scan(tile, x[i], cg::plus<float>());
    const float top = cg::reduce(tile, x[i], cg::greater<float>());
    if (tile.thread_rank() == 0) largest[i / 16] = top;
    places[i] = -1;
    if (x[i] > limit) {
        auto chosen = cg::coalesced_threads();
        int base = 0;
        if (chosen.thread_rank() == 0) base = atomicAdd(kept, (int)chosen.size());
        places[i] = chosen.shfl(base, 0) + chosen.thread_rank();
    }
}

extern "C" __global__ void labelled(const int* labels, const int* x, int* sums, int* sizes) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto same = cg::labeled_partition(warp, labels[i]);
    const int sum = cg::reduce(same, x[i], cg::plus<int>());
    sums[i] = sum;
    sizes[i] = same.size();
}
