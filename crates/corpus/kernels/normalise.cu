// Normalisations of language models: LayerNorm by Welford's update, RMSNorm of bfloat16 pairs, and their backward sums.
#include <cuda_bf16.h>

struct Moments {
    float mean, squares, count;
};

__device__ Moments joined(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float delta = b.mean - a.mean;
    return {a.mean + delta * b.count / count, a.squares + b.squares + delta * delta * a.count * b.count / count, count};
}

extern "C" __global__ void layer_norm(const float* x, const float* gamma, const float* beta, float* y, int columns, float epsilon) {
    __shared__ Moments of_warp[8];
    const int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const float value = x[row * columns + i];
        mine.count += 1.0f;
        const float delta = value - mine.mean;
        mine.mean += delta / mine.count;
        mine.squares += delta * (value - mine.mean);
    }
    for (int step = 16; step > 0; step /= 2) {
        Moments other = {__shfl_xor_sync(~0u, mine.mean, step), __shfl_xor_sync(~0u, mine.squares, step),
                         __shfl_xor_sync(~0u, mine.count, step)};
        mine = joined(mine, other);
    }
    if (lane == 0) of_warp[warp] = mine;
    __syncthreads();
    Moments all = of_warp[0];
    for (int w = 1; w < blockDim.x / 32; ++w) all = joined(all, of_warp[w]);
    const float scale = rsqrtf(all.squares / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[row * columns + i] = (x[row * columns + i] - all.mean) * scale * gamma[i] + beta[i];
}

extern "C" __global__ void rms_norm(const __nv_bfloat162* x, const __nv_bfloat162* residual, const __nv_bfloat162* weight,
                                    __nv_bfloat162* y, int pairs, float epsilon) {
    extern __shared__ float2 kept[];
    __shared__ float sums[4];
    __shared__ float scale;
    const int row = blockIdx.x;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 value = __bfloat1622float2(__hadd2(x[row * pairs + i], residual[row * pairs + i]));
        kept[i] = value;
        squares += value.x * value.x + value.y * value.y;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int w = 0; w < blockDim.x / 32; ++w) total += sums[w];
        scale = rsqrtf(total / (2 * pairs) + epsilon);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 value = kept[i], w = __bfloat1622float2(weight[i]);
        y[row * pairs + i] = __floats2bfloat162_rn(value.x * scale * w.x, value.y * scale * w.y);
    }
}

// Sums of dy and of dy * xhat over the rows, for the gradients of gamma and beta: a block per 32 columns.
extern "C" __global__ void gamma_beta_grad(const float* dy, const float* xhat, float* dgamma, float* dbeta, int rows, int columns) {
    __shared__ float a[32][33], b[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    float sum_a = 0.0f, sum_b = 0.0f;
    if (column < columns)
        for (int row = threadIdx.y; row < rows; row += blockDim.y) {
            const float gradient = dy[row * columns + column];
            sum_a += gradient * xhat[row * columns + column];
            sum_b += gradient;
        }
    a[threadIdx.y][threadIdx.x] = sum_a;
    b[threadIdx.y][threadIdx.x] = sum_b;
    __syncthreads();
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
        if (threadIdx.y < half) {
            a[threadIdx.y][threadIdx.x] += a[threadIdx.y + half][threadIdx.x];
            b[threadIdx.y][threadIdx.x] += b[threadIdx.y + half][threadIdx.x];
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && column < columns) {
        dgamma[column] = a[0][threadIdx.x];
        dbeta[column] = b[0][threadIdx.x];
    }
}
