// Split-K two ways: partial sums added by atomics, and partial sums that the last block to arrive adds up.
__device__ unsigned tickets[64];

__device__ float dot(const float* a, const float* b, int row, int column, int n, int k, int from, int to) {
    float sum = 0.0f;
    for (int t = from; t < to; ++t) sum = fmaf(a[row * k + t], b[t * n + column], sum);
    return sum;
}

extern "C" __global__ void split_k_atomic(const float* a, const float* b, float* c, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    const int share = (k + gridDim.z - 1) / gridDim.z;
    atomicAdd(&c[row * n + column], dot(a, b, row, column, n, k, blockIdx.z * share, min(k, (blockIdx.z + 1) * share)));
}

extern "C" __global__ void split_k_last_block(const float* a, const float* b, float* partial, float* c, int n, int k) {
    __shared__ bool last;
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    const int share = (k + gridDim.z - 1) / gridDim.z;
    const int cells = n * gridDim.y * blockDim.y;
    partial[blockIdx.z * cells + row * n + column] =
        dot(a, b, row, column, n, k, blockIdx.z * share, min(k, (blockIdx.z + 1) * share));
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        last = atomicAdd(&tickets[blockIdx.y * gridDim.x + blockIdx.x], 1u) == gridDim.z - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    float sum = 0.0f;
    for (int z = 0; z < gridDim.z; ++z) sum += partial[z * cells + row * n + column];
    c[row * n + column] = sum;
}
