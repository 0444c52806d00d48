// Single precision inputs on tensor cores: tf32 through wmma, and through mma.sync with the 3-product correction.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int n, int k) {
    const int row0 = blockIdx.y * 16, column0 = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int t = 0; t < k; t += 8) {
        wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, a + row0 * k + t, k);
        wmma::load_matrix_sync(fb, b + t * n + column0, n);
        for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + row0 * n + column0, sum, n, wmma::mem_row_major);
}

__device__ unsigned big(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void mma_3xtf32(const float* a, const float* b, float* c, int n, int k) {
    const int lane = threadIdx.x, group = lane / 4, place = lane % 4, row0 = blockIdx.y * 16, column0 = blockIdx.x * 8;
    float sum[4] = {};
    for (int t = 0; t < k; t += 8) {
        unsigned ah[4], al[4], bh[2], bl[2];
        for (int i = 0; i < 4; ++i) {
            const float x = a[(row0 + group + i % 2 * 8) * k + t + place + i / 2 * 4];
            ah[i] = big(x);
            al[i] = big(x - __uint_as_float(ah[i]));
        }
        for (int i = 0; i < 2; ++i) {
            const float y = b[(t + place + i * 4) * n + column0 + group];
            bh[i] = big(y);
            bl[i] = big(y - __uint_as_float(bh[i]));
        }
        mma(sum, al, bh);
        mma(sum, ah, bl);
        mma(sum, ah, bh);
    }
    for (int i = 0; i < 4; ++i) c[(row0 + group + i / 2 * 8) * n + column0 + place * 2 + i % 2] = sum[i];
}
