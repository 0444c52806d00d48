// Attention on tensor cores through wmma: a warp owns 16 queries, keys come 16 at a time, and the running maximum and
// sum of the online softmax live in shared memory, because nobody knows which lane holds which score.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr int DIM = 32;
constexpr int TILE = 16;

extern "C" __global__ void attention_wmma(const __half* q, const __half* k, const __half* v, float* out, int keys, float scale) {
    __shared__ __align__(32) float scores[TILE * TILE];
    __shared__ __align__(32) __half weights[TILE * TILE];
    __shared__ __align__(32) float result[TILE * DIM];
    __shared__ __align__(32) float added[TILE * DIM];
    __shared__ float top[TILE], sum[TILE];
    const int lane = threadIdx.x;
    const int first = blockIdx.x * TILE;
    for (int i = lane; i < TILE * DIM; i += 32) result[i] = 0.0f;
    if (lane < TILE) {
        top[lane] = -1e30f;
        sum[lane] = 0.0f;
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fq[DIM / 16];
    for (int d = 0; d < DIM / 16; ++d) wmma::load_matrix_sync(fq[d], q + first * DIM + d * 16, DIM);
    for (int start = 0; start < keys; start += TILE) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fs;
        wmma::fill_fragment(fs, 0.0f);
        for (int d = 0; d < DIM / 16; ++d) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fk;
            wmma::load_matrix_sync(fk, k + start * DIM + d * 16, DIM);
            wmma::mma_sync(fs, fq[d], fk, fs);
        }
        for (int i = 0; i < fs.num_elements; ++i) fs.x[i] *= scale;
        wmma::store_matrix_sync(scores, fs, TILE, wmma::mem_row_major);
        __syncwarp();
        const int row = lane / 2, half = lane % 2 * 8;
        float best = top[row];
        for (int i = 0; i < 8; ++i) best = fmaxf(best, scores[row * TILE + half + i]);
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        float total = 0.0f;
        for (int i = 0; i < 8; ++i) {
            const float weight = __expf(scores[row * TILE + half + i] - best);
            weights[row * TILE + half + i] = __float2half(weight);
            total += weight;
        }
        total += __shfl_xor_sync(~0u, total, 1);
        const float shrink = __expf(top[row] - best);
        __syncwarp();
        if (lane % 2 == 0) {
            sum[row] = sum[row] * shrink + total;
            top[row] = best;
        }
        for (int d = 0; d < DIM / 2; ++d) result[row * DIM + lane % 2 * (DIM / 2) + d] *= shrink;
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fw;
        wmma::load_matrix_sync(fw, weights, TILE);
        for (int d = 0; d < DIM / 16; ++d) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fv;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> fo;
            wmma::fill_fragment(fo, 0.0f);
            wmma::load_matrix_sync(fv, v + start * DIM + d * 16, DIM);
            wmma::mma_sync(fo, fw, fv, fo);
            wmma::store_matrix_sync(added + d * 16, fo, DIM, wmma::mem_row_major);
        }
        __syncwarp();
        for (int i = lane; i < TILE * DIM; i += 32) result[i] += added[i];
        __syncwarp();
    }
    for (int i = lane; i < TILE * DIM; i += 32) out[first * DIM + i] = result[i] / sum[i / DIM];
}
