// Multiplies f16 tiles on tensor cores with f32 sums: mma.m16n8k16 with operands from shared memory by ldmatrix (compute
// capability 8.0). A row of a tile has 64 halves (128 bytes, the tile begins at a multiple of 128). Its pieces of 16
// bytes are permuted by the row, so that neither stores of a row nor ldmatrix of eight rows have bank conflicts.
__device__ __forceinline__ int permuted(int row, int column) {
    return row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8;
}

// The 16 x 16 elements of A (rows x inner) from (row, inner) on.
__device__ __forceinline__ void load_a(unsigned (&a)[4], const __half *tile, int row, int inner) {
    const int lane = threadIdx.x % 32;
    const __half *from = tile + permuted(row + lane % 16, inner + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"((unsigned)__cvta_generic_to_shared(from))
                 : "memory");
}

// The 16 x 8 elements of B (inner x columns, row-major) from (inner, column) on.
__device__ __forceinline__ void load_b(unsigned (&b)[2], const __half *tile, int inner, int column) {
    const __half *from = tile + permuted(inner + threadIdx.x % 16, column);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"((unsigned)__cvta_generic_to_shared(from))
                 : "memory");
}

// sum += A B. A lane holds row lane / 4, columns lane % 4 * 2 and the next in sum[0] and sum[1], and the same columns
// eight rows below in sum[2] and sum[3].
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
