// Sorting: bitonic in shared memory, and radix by stable ranks from ballots.
extern "C" __global__ void bitonic(float* keys, int* order) {
    extern __shared__ float staged[];
    float* key = staged;
    int* place = (int*)(staged + 2 * blockDim.x);
    for (int i = threadIdx.x; i < 2 * blockDim.x; i += blockDim.x) {
        key[i] = keys[blockIdx.x * 2 * blockDim.x + i];
        place[i] = i;
    }
    for (unsigned size = 2; size <= 2 * blockDim.x; size *= 2)
        for (unsigned stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const unsigned i = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), j = i + stride;
            const bool up = (i & size) == 0;
            if ((key[i] > key[j]) == up) {
                const float other = key[i];
                key[i] = key[j];
                key[j] = other;
                const int moved = place[i];
                place[i] = place[j];
                place[j] = moved;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * blockDim.x; i += blockDim.x) {
        keys[blockIdx.x * 2 * blockDim.x + i] = key[i];
        order[blockIdx.x * 2 * blockDim.x + i] = place[i];
    }
}

// Sorts 128 keys per block, four bits at a time.
extern "C" __global__ void radix(unsigned* keys) {
    constexpr int THREADS = 128, WARPS = THREADS / 32;
    __shared__ unsigned sorted[THREADS];
    __shared__ unsigned counts[16][WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned key = keys[blockIdx.x * THREADS + threadIdx.x];
    for (int shift = 0; shift < 32; shift += 4) {
        const unsigned digit = key >> shift & 15;
        unsigned same = ~0u;
        for (int bit = 0; bit < 4; ++bit) {
            const unsigned set = __ballot_sync(~0u, digit >> bit & 1);
            same &= digit >> bit & 1 ? set : ~set;
        }
        const unsigned rank = __popc(same & ((1u << lane) - 1));
        if (threadIdx.x < 16 * WARPS) counts[threadIdx.x / WARPS][threadIdx.x % WARPS] = 0;
        __syncthreads();
        if (rank == 0) counts[digit][warp] = __popc(same);
        __syncthreads();
        if (warp == 0) {
            unsigned carry = 0;
            for (int start = 0; start < 16 * WARPS; start += 32) {
                const unsigned own = counts[0][start + lane];
                unsigned sum = own;
                for (int step = 1; step < 32; step *= 2) {
                    const unsigned left = __shfl_up_sync(~0u, sum, step);
                    if (lane >= step) sum += left;
                }
                counts[0][start + lane] = carry + sum - own;
                carry += __shfl_sync(~0u, sum, 31);
            }
        }
        __syncthreads();
        sorted[counts[digit][warp] + rank] = key;
        __syncthreads();
        key = sorted[threadIdx.x];
    }
    keys[blockIdx.x * THREADS + threadIdx.x] = key;
}
