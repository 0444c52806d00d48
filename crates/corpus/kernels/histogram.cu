// A histogram in shared memory, then in global memory, and the number of values above a limit by vote.
extern "C" __global__ void histogram(const unsigned char* values, unsigned* bins, unsigned* above, int count, int limit) {
    __shared__ unsigned local[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) local[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[values[i]], 1u);
        const unsigned mask = __activemask();
        const unsigned votes = __ballot_sync(mask, values[i] > limit);
        if (threadIdx.x % 32 == __ffs(mask) - 1) atomicAdd(above, __popc(votes));
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], local[bin]);
}
