// Cuts a long reduction over several blocks and joins their partial results in the same launch: each block writes its
// part to a workspace, and the block that counts last reads all parts. `finished` is one u32 of a workspace for each
// output tile, which a step `memset` of the plan sets to 0 before the launch. Every thread of the block calls it after
// its writes; it returns true in the block that may join.
__device__ __forceinline__ bool is_last_block(unsigned *finished, unsigned blocks) {
    __shared__ bool is_last;
    __threadfence();  // this thread's part is visible before the block is counted
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(finished, 1u) == blocks - 1;
    __syncthreads();
    __threadfence();  // the others' parts are read after the count
    return is_last;
}
