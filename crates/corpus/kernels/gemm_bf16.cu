// bfloat16 GEMM: three stages of cp.async, ldmatrix with an XOR swizzle instead of padding, mma.sync.m16n8k16.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

constexpr int M = 32, N = 32, K = 32, STAGES = 3;

__device__ __forceinline__ int swizzled(int row, int chunk) { return row * K + ((chunk ^ (row / 2 % 4)) * 8); }

extern "C" __global__ __launch_bounds__(128) void gemm_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b_transposed,
                                                            float* c, int n, int k) {
    __shared__ __align__(128) __nv_bfloat16 left[STAGES][M * K];
    __shared__ __align__(128) __nv_bfloat16 right[STAGES][N * K];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * M, column0 = blockIdx.x * N;
    auto fetch = [&](int step) {
        if (step * K < k) {
            const int row = threadIdx.x / 4, chunk = threadIdx.x % 4;
            __pipeline_memcpy_async(&left[step % STAGES][swizzled(row, chunk)], &a[(row0 + row) * k + step * K + chunk * 8], 16);
            __pipeline_memcpy_async(&right[step % STAGES][swizzled(row, chunk)],
                                    &b_transposed[(column0 + row) * k + step * K + chunk * 8], 16);
        }
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stage);
    float sum[2][4] = {};
    const int wm = warp / 2 * 16, wn = warp % 2 * 16;
    for (int step = 0; step * K < k; ++step) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(step + STAGES - 1);
#pragma unroll
        for (int t = 0; t < K / 16; ++t) {
            unsigned x[4], y[4];
            const unsigned at = __cvta_generic_to_shared(&left[step % STAGES][swizzled(wm + lane % 16, t * 2 + lane / 16)]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
            const unsigned bt = __cvta_generic_to_shared(
                &right[step % STAGES][swizzled(wn + lane % 8 + lane / 16 * 8, t * 2 + lane / 8 % 2)]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(bt));
            for (int j = 0; j < 2; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * j]), "r"(y[2 * j + 1]));
        }
    }
    for (int j = 0; j < 2; ++j)
        for (int h = 0; h < 2; ++h) {
            const int row = row0 + wm + lane / 4 + 8 * h, column = column0 + wn + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(&c[row * n + column]) = make_float2(sum[j][2 * h], sum[j][2 * h + 1]);
        }
}
