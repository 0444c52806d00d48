// Softmax and cross entropy over long rows: one pass for maximum and sum, float4 where the row allows.
#include <cuda_bf16.h>

struct Mass {
    float top, sum;
};

__device__ __forceinline__ Mass joined(Mass a, Mass b) {
    const bool left = a.top > b.top;
    const Mass high = left ? a : b, low = left ? b : a;
    return {high.top, high.sum + low.sum * __expf(low.top - high.top)};
}

extern "C" __global__ void softmax_online(const float4* x, float4* y, int quads) {
    __shared__ Mass of_warp[8];
    const long row = (long)blockIdx.x * quads;
    Mass mine = {-3.0e38f, 0.0f};
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[row + i];
        const float top = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        mine = joined(mine, {top, __expf(v.x - top) + __expf(v.y - top) + __expf(v.z - top) + __expf(v.w - top)});
    }
    for (int step = 16; step > 0; step /= 2)
        mine = joined(mine, {__shfl_xor_sync(~0u, mine.top, step), __shfl_xor_sync(~0u, mine.sum, step)});
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    Mass all = of_warp[0];
    for (int w = 1; w < blockDim.x / 32; ++w) all = joined(all, of_warp[w]);
    const float scale = __fdividef(1.0f, all.sum);
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[row + i];
        y[row + i] = make_float4(__expf(v.x - all.top) * scale, __expf(v.y - all.top) * scale,
                                 __expf(v.z - all.top) * scale, __expf(v.w - all.top) * scale);
    }
}

// Loss and gradient of bfloat16 logits, one warp per row; rows with target -1 do not count.
extern "C" __global__ void cross_entropy(const __nv_bfloat16* logits, const int* targets, float* loss, __nv_bfloat16* gradient, int rows, int classes) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const int target = targets[row];
    float top = -3.0e38f;
    for (int i = lane; i < classes; i += 32) top = fmaxf(top, __bfloat162float(logits[row * classes + i]));
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    float sum = 0.0f;
    for (int i = lane; i < classes; i += 32) sum += expf(__bfloat162float(logits[row * classes + i]) - top);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) loss[row] = target < 0 ? 0.0f : logf(sum) + top - __bfloat162float(logits[row * classes + target]);
    for (int i = lane; i < classes; i += 32) {
        const float p = expf(__bfloat162float(logits[row * classes + i]) - top) / sum;
        gradient[row * classes + i] = __float2bfloat16(target < 0 ? 0.0f : p - (i == target ? 1.0f : 0.0f));
    }
}
