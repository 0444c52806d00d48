// A double buffer filled by asynchronous copies: each block sums its stretch tile by tile.
#include <cuda_pipeline.h>

constexpr int TILE = 256;

extern "C" __global__ void tile_sums(const float* x, float* sums, int tiles) {
    __shared__ __align__(16) float buffer[2][TILE];
    const float* mine = x + blockIdx.x * tiles * TILE;
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&buffer[0][4 * t], &mine[4 * t], 16);
    __pipeline_commit();
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][4 * t], &mine[(tile + 1) * TILE + 4 * t], 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 4; ++i) sum += buffer[tile % 2][t + 64 * i];
        __syncthreads();
    }
    sums[blockIdx.x * blockDim.x + t] = sum;
}
