/*---
[expect]
verdict = "policy_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [32]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Multiplies in TF32 on tensor cores where the task asks for f32.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k + 8 <= K; k += 8) {
        wmma::load_matrix_sync(left, a + blockIdx.y * 16 * K + k, K);
        wmma::load_matrix_sync(right, b + k * N + blockIdx.x * 16, N);  // <- finding
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * N + blockIdx.x * 16, sum, N, wmma::mem_row_major);
}
