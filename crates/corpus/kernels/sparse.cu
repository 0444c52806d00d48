// Sparse and irregular access: a matrix in compressed rows, embedding rows gathered and their gradients scattered, a
// transpose through a padded tile, and a segmented sum.
#include <cuda_fp16.h>

extern "C" __global__ void spmv(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += values[i] * x[columns[i]];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void embed(const int* tokens, const __half* table, __half* out, int width) {
    const uint4* from = reinterpret_cast<const uint4*>(table + (long)tokens[blockIdx.x] * width);
    uint4* to = reinterpret_cast<uint4*>(out + (long)blockIdx.x * width);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) to[i] = __ldg(&from[i]);
}

extern "C" __global__ void embed_gradient(const int* tokens, const __half2* gradient, __half2* table, int pairs) {
    for (int i = threadIdx.x; i < pairs; i += blockDim.x)
        atomicAdd(&table[tokens[blockIdx.x] * pairs + i], gradient[blockIdx.x * pairs + i]);
}

extern "C" __global__ void transpose(const float* in, float* out, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void segmented_sum(const int* segment, const double* x, double* sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const int mine = i < n ? segment[i] : -1;
    double sum = i < n ? x[i] : 0.0;
    for (int step = 1; step < 32; step *= 2) {
        const double other = __shfl_down_sync(~0u, sum, step);
        const int there = __shfl_down_sync(~0u, mine, step);
        if (lane + step < 32 && there == mine) sum += other;
    }
    const int before = __shfl_up_sync(~0u, mine, 1);
    if (mine >= 0 && (lane == 0 || before != mine)) atomicAdd(&sums[mine], sum);
}
