// Split-K two ways: partial sums added by atomics, and partial sums that the last block to arrive adds up.
__device__ unsigned tickets[4][64];

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

// The means by which the last block sees what the others wrote: a fence behind its ticket; a ticket that acquires; or,
// with neither, reads past its own cache, volatile as in NVIDIA's threadFenceReduction or by __ldcg().
enum Seen { FENCED, ACQUIRED, VOLATILE, PAST_THE_CACHE };

template <Seen SEEN>
__device__ void last_block(const float* a, const float* b, float* partial, float* c, int n, int k) {
    __shared__ bool last;
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    const int share = (k + gridDim.z - 1) / gridDim.z;
    const int cells = n * gridDim.y * blockDim.y;
    partial[blockIdx.z * cells + row * n + column] =
        dot(a, b, row, column, n, k, blockIdx.z * share, min(k, (blockIdx.z + 1) * share));
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        unsigned* const mine = &tickets[SEEN][blockIdx.y * gridDim.x + blockIdx.x];
        unsigned ticket;
        if (SEEN == ACQUIRED)
            asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(mine) : "memory");
        else
            ticket = atomicAdd(mine, 1u);
        last = ticket == gridDim.z - 1;
    }
    __syncthreads();
    if (!last) return;
    if (SEEN == FENCED) __threadfence();
    float sum = 0.0f;
    for (int z = 0; z < gridDim.z; ++z) {
        const float* const part = &partial[z * cells + row * n + column];
        if (SEEN == VOLATILE)
            sum += *(const volatile float*)part;
        else if (SEEN == PAST_THE_CACHE)
            sum += __ldcg(part);
        else
            sum += *part;
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void split_k_last_block(const float* a, const float* b, float* partial, float* c, int n, int k) {
    last_block<FENCED>(a, b, partial, c, n, k);
}

extern "C" __global__ void split_k_acquired(const float* a, const float* b, float* partial, float* c, int n, int k) {
    last_block<ACQUIRED>(a, b, partial, c, n, k);
}

extern "C" __global__ void split_k_volatile(const float* a, const float* b, float* partial, float* c, int n, int k) {
    last_block<VOLATILE>(a, b, partial, c, n, k);
}

extern "C" __global__ void split_k_past_the_cache(const float* a, const float* b, float* partial, float* c, int n, int k) {
    last_block<PAST_THE_CACHE>(a, b, partial, c, n, k);
}
