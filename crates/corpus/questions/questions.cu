// Kernels that measure a device for `gpu-check`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// One access at a chosen element: 0 reads it into out[0], 1 writes it.
extern "C" __global__ void touch(int* buffer, long long element, int write, int* out) {
    if (write) {
        buffer[element] = 77;
    } else {
        out[0] = buffer[element];
    }
}

extern "C" __global__ void endless(volatile int* flag) {
    while (*flag == 0) {
    }
}

// y = 2 x + 1, a kernel that any memory system bounds.
extern "C" __global__ void stream(const float4* x, float4* y, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        y[i] = make_float4(2.0f * v.x + 1.0f, 2.0f * v.y + 1.0f, 2.0f * v.z + 1.0f, 2.0f * v.w + 1.0f);
    }
}

// Follows a chain of dependent loads through a buffer, one per 128 bytes, and counts cycles. With keep, the first walk
// asks the cache to hold the lines longest.
extern "C" __global__ void walk(const unsigned* chain, int steps, int keep, long long* cycles, unsigned* last) {
    unsigned at = 0;
    unsigned long long longest;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(longest));
    long long begin = clock64();
    for (int i = 0; i < steps; i++) {
        unsigned next;
        if (keep) {
            asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(next) : "l"(chain + at), "l"(longest));
        } else {
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(next) : "l"(chain + at));
        }
        at = next;
    }
    cycles[0] = clock64() - begin;
    last[0] = at;
}

// Spins for so many nanoseconds of the device's own timer and says what both of its clocks counted.
extern "C" __global__ void spin(long long nanoseconds, long long* counted) {
    unsigned long long begin, now;
    long long cycles = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while ((long long)(now - begin) < nanoseconds);
    counted[0] = (long long)(now - begin);
    counted[1] = clock64() - cycles;
}

// c = a b with a of m x k and b of k x n, row by row, in plain single precision.
extern "C" __global__ void product_f32(const float* a, const float* b, float* c, int n, int k) {
    int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < k; t++) sum = fmaf(a[row * k + t], b[t * n + column], sum);
    c[row * n + column] = sum;
}

extern "C" __global__ void product_tf32(const float* a, const float* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    int row = 16 * blockIdx.y, column = 16 * blockIdx.x;
    for (int t = 0; t < k; t += 8) {
        wmma::load_matrix_sync(fa, a + row * k + t, k);
        wmma::load_matrix_sync(fb, b + t * n + column, n);
        for (int i = 0; i < fa.num_elements; i++) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; i++) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

template <typename T>
__device__ void product_of(const float* a, const float* b, float* c, int n, int k) {
    __shared__ T tile_a[256], tile_b[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    int row = 16 * blockIdx.y, column = 16 * blockIdx.x;
    for (int t = 0; t < k; t += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            tile_a[i] = T(a[(row + i / 16) * k + t + i % 16]);
            tile_b[i] = T(b[(t + i / 16) * n + column + i % 16]);
        }
        __syncwarp();
        wmma::load_matrix_sync(fa, tile_a, 16);
        wmma::load_matrix_sync(fb, tile_b, 16);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

extern "C" __global__ void product_f16(const float* a, const float* b, float* c, int n, int k) {
    product_of<__half>(a, b, c, n, k);
}

extern "C" __global__ void product_bf16(const float* a, const float* b, float* c, int n, int k) {
    product_of<__nv_bfloat16>(a, b, c, n, k);
}
