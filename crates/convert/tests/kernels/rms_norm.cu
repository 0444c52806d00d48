// RMSNorm over the last axis, one block per row.
#include <cuda_runtime.h>

namespace layers {

template <typename T>
__device__ __forceinline__ float to_float(T value) { return static_cast<float>(value); }

template <int BLOCK>
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float partial[BLOCK / 32];
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) total += partial[warp];
    return total;
}

template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ out,
                const int hidden, const float epsilon) {
    const T* row = x + static_cast<size_t>(blockIdx.x) * hidden;
    T* out_row = out + static_cast<size_t>(blockIdx.x) * hidden;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += BLOCK) {
        const float value = to_float(row[i]);
        sum += value * value;
    }
    const float scale = rsqrtf(block_sum<BLOCK>(sum) / hidden + epsilon);
    for (int i = threadIdx.x; i < hidden; i += BLOCK) {
        out_row[i] = static_cast<T>(to_float(row[i]) * scale * to_float(weight[i]));
    }
}

}  // namespace layers

void rms_norm(const float* x, const float* weight, float* out, int rows, int hidden, float epsilon,
              cudaStream_t stream) {
    constexpr int kBlock = 256;
    layers::rms_norm_kernel<float, kBlock><<<rows, kBlock, 0, stream>>>(x, weight, out, hidden, epsilon);
}
