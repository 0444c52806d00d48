// One 16x16 tile of c = a b per warp on tensor cores, through shared memory.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const __half* a, const __half* b, float* c, int k) {
    __shared__ __align__(16) __half left[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int step = 0; step < k; step += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) left[i] = a[(i / 16) * k + step + i % 16];
        __syncwarp();
        wmma::load_matrix_sync(fa, left, 16);
        wmma::load_matrix_sync(fb, b + step * 16, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
