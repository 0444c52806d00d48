// Adds one value of every thread of a block: shuffles within each warp, then shuffles over the warps' sums. Every
// thread gets the sum. blockDim.x is a multiple of 32 up to 1024; all threads call it. Another operation (a maximum,
// say) needs another neutral element in place of 0.
__device__ __forceinline__ float add_warp(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

__device__ __forceinline__ float add_block(float value) {
    __shared__ float of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = add_warp(value);
    __syncthreads();  // a call before this one has been read
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    return add_warp(lane < warps ? of_warp[lane] : 0.0f);
}
