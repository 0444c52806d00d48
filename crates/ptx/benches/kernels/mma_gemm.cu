// c = a b with halves in, floats out: four warps compute a 64 x 64 tile, each 32 x 32 of it on tensor cores.
#include <cuda_fp16.h>

constexpr int TILE = 64;
constexpr int DEPTH = 32;
constexpr int STRIDE = DEPTH + 8;

__device__ void load_matrices(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// a is n x n by rows, b is n x n by columns.
extern "C" __global__ void __launch_bounds__(128)
    mma_gemm(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ __align__(16) __half left[TILE * STRIDE];
    __shared__ __align__(16) __half right[TILE * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;

    float sums[2][4][4] = {};
    for (int k = 0; k < n; k += DEPTH) {
        __syncthreads();
        for (int part = threadIdx.x; part < TILE * DEPTH / 8; part += 128) {
            const int row = part / (DEPTH / 8), column = part % (DEPTH / 8) * 8;
            *reinterpret_cast<uint4*>(&left[row * STRIDE + column]) =
                *reinterpret_cast<const uint4*>(&a[size_t(first_row + row) * n + k + column]);
            *reinterpret_cast<uint4*>(&right[row * STRIDE + column]) =
                *reinterpret_cast<const uint4*>(&b[size_t(first_column + row) * n + k + column]);
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step += 16) {
            unsigned rows[2][4], columns[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(rows[i], &left[(warp_row + i * 16 + lane % 16) * STRIDE + step + lane / 16 * 8]);
                load_matrices(columns[i],
                              &right[(warp_column + i * 16 + lane % 8 + lane / 16 * 8) * STRIDE + step + lane / 8 % 2 * 8]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    multiply(sums[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = first_row + warp_row + i * 16 + lane / 4;
            const int column = first_column + warp_column + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(&c[size_t(row) * n + column]) = {sums[i][j][0], sums[i][j][1]};
            *reinterpret_cast<float2*>(&c[size_t(row + 8) * n + column]) = {sums[i][j][2], sums[i][j][3]};
        }
}
