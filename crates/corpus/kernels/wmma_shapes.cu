// The other shapes and formats of wmma: one product of one tile each, with rows and columns the other way round, too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// The size of the answer tells the layouts apart.
__device__ char is_row(wmma::row_major*);
__device__ int is_row(wmma::col_major*);

template <int M, int N, int K, typename T, typename Sum, typename LayoutA, typename LayoutB>
__device__ void product(const T* a, const T* b, const Sum* c, Sum* d) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> fc;
    wmma::load_matrix_sync(fa, a, sizeof(is_row(static_cast<LayoutA*>(nullptr))) == 1 ? K : M);
    wmma::load_matrix_sync(fb, b, sizeof(is_row(static_cast<LayoutB*>(nullptr))) == 1 ? N : K);
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, M, wmma::mem_col_major);
}

#define SHAPE(name, M, N, K, T, Sum, LayoutA, LayoutB)                                             \
    extern "C" __global__ void name(const T* a, const T* b, const Sum* c, Sum* d) {               \
        product<M, N, K, T, Sum, wmma::LayoutA, wmma::LayoutB>(a, b, c, d);                        \
    }

SHAPE(f16_tall, 32, 8, 16, __half, float, row_major, col_major)
SHAPE(f16_wide, 8, 32, 16, __half, float, col_major, row_major)
SHAPE(f16_in_halves, 16, 16, 16, __half, __half, col_major, col_major)
SHAPE(bf16_square, 16, 16, 16, __nv_bfloat16, float, row_major, row_major)
SHAPE(bf16_tall, 32, 8, 16, __nv_bfloat16, float, col_major, row_major)
SHAPE(bf16_wide, 8, 32, 16, __nv_bfloat16, float, row_major, col_major)
SHAPE(s8_square, 16, 16, 16, signed char, int, row_major, col_major)
SHAPE(u8_tall, 32, 8, 16, unsigned char, int, row_major, row_major)
SHAPE(s8_wide, 8, 32, 16, signed char, int, col_major, col_major)
