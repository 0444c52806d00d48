// Prefix sums: inside a block by shuffles, and over the whole array in a single pass that looks back at earlier blocks.
__device__ unsigned next_block;
__device__ volatile unsigned long long states[64];

__device__ int warp_scan(int value) {
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(~0u, value, step);
        if (threadIdx.x % 32 >= step) value += left;
    }
    return value;
}

__device__ int block_scan(int value, int* sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = warp_scan(value);
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        const int total = warp_scan(lane < blockDim.x / 32 ? sums[lane] : 0);
        if (lane < blockDim.x / 32) sums[lane] = total;
    }
    __syncthreads();
    return warp > 0 ? sum + sums[warp - 1] : sum;
}

extern "C" __global__ void exclusive_rows(const int* in, int* out, int columns) {
    __shared__ int sums[32];
    int carry = 0;
    for (int start = 0; start < columns; start += blockDim.x) {
        const int i = start + threadIdx.x;
        const int value = i < columns ? in[blockIdx.x * columns + i] : 0;
        const int sum = block_scan(value, sums);
        if (i < columns) out[blockIdx.x * columns + i] = carry + sum - value;
        carry += sums[blockDim.x / 32 - 1];
        __syncthreads();
    }
}

// The state of a block: 1 in the upper half when its own sum stands in the lower one, 2 when its whole prefix does.
extern "C" __global__ void single_pass(const int* in, int* out, int n) {
    __shared__ int sums[32];
    __shared__ int block, before;
    if (threadIdx.x == 0) block = atomicAdd(&next_block, 1u);
    __syncthreads();
    const int i = block * blockDim.x + threadIdx.x;
    const int sum = block_scan(i < n ? in[i] : 0, sums);
    if (threadIdx.x == blockDim.x - 1) {
        int prefix = 0;
        if (block > 0) {
            states[block] = 1ull << 32 | (unsigned)sum;
            for (int other = block - 1; other >= 0; --other) {
                unsigned long long state;
                do state = states[other];
                while (state >> 32 == 0);
                prefix += (int)state;
                if (state >> 32 == 2) break;
            }
        }
        states[block] = 2ull << 32 | (unsigned)(prefix + sum);
        before = prefix;
    }
    __syncthreads();
    if (i < n) out[i] = before + sum;
}
