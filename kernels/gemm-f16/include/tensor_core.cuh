// The instructions that tensor-core kernels are made of, for sm_80 and newer.
#pragma once
#include <cuda_fp16.h>

// Four 8 x 8 matrices of f16: lane i gives the address of row i % 8 of matrix i / 8, and receives of
// each matrix the elements (lane / 4, 2 (lane % 4)) and the next.
__device__ inline void load_matrices(unsigned (&to)[4], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(unsigned (&to)[4], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum (16 x 8, f32) += a (16 x 16, f16) b (16 x 8, f16). A lane holds of `sum` the columns
// 2 (lane % 4) and the next, in row lane / 4 and in row lane / 4 + 8.
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The place of a piece of 16 bytes in a tile whose rows have PIECES pieces, which is a power of two. A matrix load takes eight rows
// at one column. Rows that lie in the same 128 bytes, which one pass through all banks serves, have different places;
// from one such group of rows to the next the pieces change places, so that all eight lie on different banks.
template <int PIECES>
__device__ inline int place(int row, int piece) {
    constexpr int ROWS_OF_PASS = PIECES < 8 ? 8 / PIECES : 1;
    constexpr int PLACES = PIECES < 8 ? PIECES : 8;
    return row * PIECES + (piece ^ row / ROWS_OF_PASS % PLACES);
}

// Starts a copy of 16 bytes to shared memory; where the source does not exist, of zeros.
__device__ inline void copy_async(void* to, const void* from, bool exists) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0)
                 : "memory");
}

// Ends a group: all copies this thread started since the last one.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING groups of this thread are under way.
template <int PENDING>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
