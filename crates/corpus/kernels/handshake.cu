// A barrier over the whole grid made of an atomic counter and a flag, which needs every block resident.
__device__ unsigned arrived;
__device__ volatile unsigned open;

extern "C" __global__ void handshake(const int* x, int* partial, int* total) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 32; ++i) sum += x[blockIdx.x * 32 + i];
        atomicExch(&partial[blockIdx.x], sum);
        __threadfence();
        if (atomicAdd(&arrived, 1u) == gridDim.x - 1) {
            int all = 0;
            for (unsigned b = 0; b < gridDim.x; ++b) all += atomicAdd(&partial[b], 0);
            atomicExch(total, all);
            __threadfence();
            open = 1;
        }
        while (open == 0) __nanosleep(20);
    }
    __syncthreads();
    if (threadIdx.x == 1) atomicAdd(&partial[blockIdx.x], 1000 * (int)open);
}
