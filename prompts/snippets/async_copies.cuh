// Loads the next tiles while this one is used: a ring of Stages tiles in shared memory, filled by asynchronous copies of
// 16 bytes (compute capability 8.0). Sources and destinations begin at multiples of 16 bytes.
// `load(tile, stage)` calls copy_async for this thread's part of a tile; `use(tile, stage)` computes with it.
__device__ __forceinline__ void copy_async(void *shared, const void *global, bool exists) {
    // Where `exists` is false nothing is read, and the 16 bytes become zeros.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(exists ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Open>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
}

template <int Stages, typename Load, typename Use>
__device__ __forceinline__ void pipeline(int tiles, Load load, Use use) {
    for (int tile = 0; tile < Stages - 1; ++tile) {
        if (tile < tiles) load(tile, tile);
        commit_copies();  // empty past the end, so that the number of open groups tells which tile has arrived
    }
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_copies<Stages - 2>();
        __syncthreads();  // the tile is whole for all threads, and nobody reads the stage that is filled next
        const int next = tile + Stages - 1;
        if (next < tiles) load(next, next % Stages);
        commit_copies();
        use(tile, tile % Stages);
    }
}
