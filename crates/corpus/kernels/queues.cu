// Work that is handed out while the kernel runs: a persistent queue, a frontier search, and a hash table.
__device__ unsigned next_item;

// Each item is a row of its own length; blocks take rows until none is left.
extern "C" __global__ void persistent_rows(const int* starts, const float* x, float* sums, int rows) {
    __shared__ unsigned row;
    __shared__ float partial[2];
    for (;;) {
        if (threadIdx.x == 0) row = atomicAdd(&next_item, 1u);
        __syncthreads();
        const unsigned mine = row;
        if (mine >= rows) return;
        float sum = 0.0f;
        for (int i = starts[mine] + threadIdx.x; i < starts[mine + 1]; i += blockDim.x) sum += x[i];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) sums[mine] = partial[0] + partial[1];
    }
}

// One level of a breadth-first search over a graph in compressed rows.
extern "C" __global__ void bfs_level(const int* starts, const int* edges, int* distance, const int* frontier, int size, int* next, int* next_size, int level) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const int node = frontier[i];
    for (int e = starts[node]; e < starts[node + 1]; ++e)
        if (atomicCAS(&distance[edges[e]], -1, level) == -1) next[atomicAdd(next_size, 1)] = edges[e];
}

// Counts keys in an open hash table of 64-bit slots: key in the upper half, count in the lower.
extern "C" __global__ void count_keys(const unsigned* keys, unsigned long long* table, unsigned slots, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned key = keys[i];
    for (unsigned slot = key * 2654435761u % slots;; slot = (slot + 1) % slots) {
        unsigned long long seen = atomicCAS(&table[slot], 0ull, (unsigned long long)key << 32);
        if (seen == 0 || seen >> 32 == key) {
            atomicAdd(&table[slot], 1ull);
            return;
        }
    }
}

// A lock per cell, taken by single lanes.
extern "C" __global__ void locked_append(int* lock, volatile int* list, volatile int* length, const int* x) {
    bool waiting = true;
    while (waiting) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            const int at = *length;
            list[at] = x[blockIdx.x * blockDim.x + threadIdx.x];
            *length = at + 1;
            __threadfence();
            atomicExch(lock, 0);
            waiting = false;
        }
    }
}
