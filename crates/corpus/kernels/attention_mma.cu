// FlashAttention-2 style: mma.sync on fragments in registers, keys and values fetched by cp.async and read by ldmatrix,
// the scores' accumulators reused as the next product's left operand without leaving the registers.
#include <cuda_fp16.h>

constexpr int DIM = 64;
constexpr int BLOCK = 32;  // keys per step
constexpr int PITCH = DIM + 8;

__device__ __forceinline__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load4(unsigned (&r)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void load2_transposed(unsigned (&r)[2], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void fetch(__half* to, const __half* from, int thread, int threads) {
    for (int i = thread; i < BLOCK * DIM / 8; i += threads) {
        const int row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(shared_address(to + row * PITCH + column)), "l"(from + row * DIM + column));
    }
}

__device__ __forceinline__ unsigned pack(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<unsigned*>(&both);
}

// One block of 64 threads per 32 queries of one head; each warp has 16 of them.
extern "C" __global__ __launch_bounds__(64) void attention_mma(const __half* q, const __half* k, const __half* v,
                                                               __half* out, int keys, float scale) {
    __shared__ __align__(16) __half queries[32 * PITCH];
    __shared__ __align__(16) __half key_tile[2][BLOCK * PITCH];
    __shared__ __align__(16) __half value_tile[2][BLOCK * PITCH];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long head = (long)blockIdx.y * keys * DIM;
    const int first = blockIdx.x * 32;
    fetch(queries, q + head + first * DIM, threadIdx.x, 64);
    fetch(key_tile[0], k + head, threadIdx.x, 64);
    fetch(value_tile[0], v + head, threadIdx.x, 64);
    asm volatile("cp.async.commit_group;");
    float o[DIM / 8][4] = {};
    float top[2] = {-3.0e38f, -3.0e38f}, sum[2] = {};
    unsigned fq[DIM / 16][4];
    const int steps = keys / BLOCK;
    for (int step = 0; step < steps; ++step) {
        const int now = step & 1;
        if (step + 1 < steps) {
            fetch(key_tile[now ^ 1], k + head + (step + 1) * BLOCK * DIM, threadIdx.x, 64);
            fetch(value_tile[now ^ 1], v + head + (step + 1) * BLOCK * DIM, threadIdx.x, 64);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        if (step == 0) {
            for (int d = 0; d < DIM / 16; ++d)
                load4(fq[d], shared_address(queries + (warp * 16 + lane % 16) * PITCH + d * 16 + lane / 16 * 8));
        }
        float s[BLOCK / 8][4] = {};
        for (int n = 0; n < BLOCK / 8; ++n) {
            for (int d = 0; d < DIM / 32; ++d) {
                unsigned b[4];
                load4(b, shared_address(key_tile[now] + (n * 8 + lane % 8) * PITCH + d * 32 + lane / 8 * 8));
                mma(s[n], fq[2 * d], b[0], b[1]);
                mma(s[n], fq[2 * d + 1], b[2], b[3]);
            }
        }
        float best[2] = {top[0], top[1]};
        for (int n = 0; n < BLOCK / 8; ++n)
            for (int i = 0; i < 4; ++i) {
                s[n][i] *= scale;
                best[i / 2] = fmaxf(best[i / 2], s[n][i]);
            }
        for (int r = 0; r < 2; ++r) {
            best[r] = fmaxf(best[r], __shfl_xor_sync(~0u, best[r], 1));
            best[r] = fmaxf(best[r], __shfl_xor_sync(~0u, best[r], 2));
            const float shrink = exp2f((top[r] - best[r]) * 1.44269504f);
            top[r] = best[r];
            sum[r] *= shrink;
            for (int d = 0; d < DIM / 8; ++d) {
                o[d][2 * r] *= shrink;
                o[d][2 * r + 1] *= shrink;
            }
        }
        for (int n = 0; n < BLOCK / 8; ++n)
            for (int i = 0; i < 4; ++i) {
                s[n][i] = exp2f((s[n][i] - top[i / 2]) * 1.44269504f);
                sum[i / 2] += s[n][i];
            }
        for (int pair = 0; pair < BLOCK / 16; ++pair) {
            const unsigned weights[4] = {pack(s[2 * pair][0], s[2 * pair][1]), pack(s[2 * pair][2], s[2 * pair][3]),
                                         pack(s[2 * pair + 1][0], s[2 * pair + 1][1]),
                                         pack(s[2 * pair + 1][2], s[2 * pair + 1][3])};
            for (int d = 0; d < DIM / 8; ++d) {
                unsigned b[2];
                load2_transposed(b, shared_address(value_tile[now] + (pair * 16 + lane % 16) * PITCH + d * 8));
                mma(o[d], weights, b[0], b[1]);
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
        const int row = first + warp * 16 + lane / 4 + 8 * r;
        for (int d = 0; d < DIM / 8; ++d)
            *reinterpret_cast<__half2*>(out + head + row * DIM + d * 8 + lane % 4 * 2) =
                __floats2half2_rn(o[d][2 * r] / sum[r], o[d][2 * r + 1] / sum[r]);
    }
}
