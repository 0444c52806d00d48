// Double precision: tensor cores through wmma, and interval arithmetic with directed rounding.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_f64(const double* a, const double* b, double* c, int n, int k) {
    const int row0 = blockIdx.y * 8, column0 = blockIdx.x * 8;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
    wmma::fill_fragment(sum, 0.0);
    for (int t = 0; t < k; t += 4) {
        wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, a + row0 * k + t, k);
        wmma::load_matrix_sync(fb, b + column0 * k + t, k);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + row0 * n + column0, sum, n, wmma::mem_row_major);
}

// Encloses the sum of x[i] * y[i], and the quotient and root of its ends.
extern "C" __global__ void intervals(const double* x, const double* y, double* low, double* high, int n) {
    const int t = threadIdx.x;
    double down = 0.0, up = 0.0;
    for (int i = 0; i < n; ++i) {
        const double a = x[t * n + i], b = y[t * n + i];
        down = __dadd_rd(down, __dmul_rd(a, b));
        up = __fma_ru(a, b, up);
    }
    low[2 * t] = down;
    high[2 * t] = up;
    low[2 * t + 1] = __dsqrt_rd(__ddiv_rd(fabs(down), 3.0)) + __drcp_rz(7.0 + t);
    high[2 * t + 1] = __dsqrt_ru(__ddiv_ru(fabs(up), 3.0)) + __drcp_ru(7.0 + t);
}
