// One mistake per kernel, in waiting for asynchronous copies and in using tensor cores. See memory.cu for the marks.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;

// block 64
extern "C" __global__ void copy_is_not_awaited(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &a[threadIdx.x], 4);  // OTHER
    __pipeline_commit();
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];  // BUG unawaited_copy
}

// block 64
extern "C" __global__ void waits_for_one_group_too_few(const int* a, int* b, int* out, int n) {
    __shared__ int tile[2][64];
    int sum = 0;
    __pipeline_memcpy_async(&tile[0][threadIdx.x], &a[threadIdx.x], 4);
    __pipeline_commit();
    for (int t = 0; t < 4; ++t) {
        if (t + 1 < 4) {
            __pipeline_memcpy_async(&tile[(t + 1) % 2][threadIdx.x], &a[(t + 1) * 64 + threadIdx.x], 4);  // OTHER
            __pipeline_commit();
        }
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += tile[t % 2][63 - threadIdx.x];  // BUG unawaited_copy
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

// block 64
extern "C" __global__ void copy_was_never_committed(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &a[threadIdx.x], 4);  // OTHER
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];  // BUG unawaited_copy
}

// block 64
extern "C" __global__ void others_copies_need_a_barrier(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &a[threadIdx.x], 4);  // OTHER
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = tile[63 - threadIdx.x];  // BUG shared_race
}

// block 64
extern "C" __global__ void fetches_into_what_is_read(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    int sum = 0;
    for (int t = 0; t < 3; ++t) {
        __pipeline_memcpy_async(&tile[threadIdx.x], &a[t * 64 + threadIdx.x], 4);  // BUG shared_race
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        sum += tile[63 - threadIdx.x];  // OTHER
    }
    out[threadIdx.x] = sum;
}

// block 32
extern "C" __global__ void waits_for_the_wrong_phase(const int* a, int* b, int* out, int n) {
    __shared__ __align__(16) int tile[32];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory");
    __syncwarp();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"  // OTHER
                 :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x]))), "l"(a + threadIdx.x) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at) : "memory");
    unsigned done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(at) : "memory");
    out[threadIdx.x] = tile[threadIdx.x] + done;  // BUG unawaited_copy
}

// block 32, fragments
extern "C" __global__ void knows_where_fragments_are(const int* a, int* b, int* out, int n) {  // BUG fragment_layout
    __shared__ __align__(32) __half left[256];
    __shared__ __align__(32) float result[256];
    for (int i = threadIdx.x; i < 256; i += 32) left[i] = __int2half_rn(a[i] & 7);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, left, 16);
    wmma::load_matrix_sync(fb, left, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    // Scales each row by its number, believing that a lane holds rows lane / 4 and lane / 4 + 8.
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= threadIdx.x / 4 + (i / 2 % 2) * 8;
    wmma::store_matrix_sync(result, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = result[i];
}

// block 32
extern "C" __global__ void rows_for_ldmatrix_are_not_aligned(const int* a, int* b, int* out, int n) {
    __shared__ __align__(16) __half tile[8 * 9];
    for (int i = threadIdx.x; i < 8 * 9; i += 32) tile[i] = __int2half_rn(a[i]);
    __syncwarp();
    unsigned r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"  // BUG misaligned
                 : "=r"(r) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x % 8 * 9]))));
    out[threadIdx.x] = r;
}

// block 64
extern "C" __global__ void fragment_is_loaded_too_early(const int* a, int* b, int* out, int n) {
    __shared__ __align__(32) __half left[256];
    for (int i = threadIdx.x; i < 256; i += 64) left[i] = __int2half_rn(a[i] & 7);  // OTHER
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, left, 16);  // BUG shared_race
    out[threadIdx.x] = __half2int_rn(fa.x[0]) & 0;
}

// block 32
extern "C" __global__ void accumulators_start_with_garbage(const int* a, int* b, int* out, int n) {
    const float* sums = reinterpret_cast<const float*>(b);
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::load_matrix_sync(fc, sums, 16, wmma::mem_row_major);  // BUG uninitialised_store
    wmma::load_matrix_sync(fa, reinterpret_cast<const float*>(a), 8);
    wmma::load_matrix_sync(fb, reinterpret_cast<const float*>(a), 8);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(reinterpret_cast<float*>(out), fc, 16, wmma::mem_row_major);
}

// block 64
extern "C" __global__ void copies_into_the_next_array(const int* a, int* b, int* out, int n) {
    __shared__ int left[64];
    __shared__ int right[64];
    right[threadIdx.x] = a[64 + threadIdx.x];
    __syncthreads();
    __pipeline_memcpy_async(&left[threadIdx.x + 4], &a[threadIdx.x], 4);  // BUG out_of_bounds_write
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = left[threadIdx.x % 60 + 4] + right[63 - threadIdx.x];
}

// block 32
extern "C" __global__ void fragment_begins_a_row_too_late(const int* a, int* b, int* out, int n) {
    __shared__ __align__(32) half left[16 * 16];
    __shared__ __align__(32) half right[16 * 16];
    for (int i = threadIdx.x; i < 256; i += 32) left[i] = right[i] = __int2half_rn(a[i] % 8);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, left + 16, 16);  // BUG out_of_bounds_read
    wmma::load_matrix_sync(fb, right, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    __shared__ __align__(32) float sums[16 * 16];
    wmma::store_matrix_sync(sums, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = static_cast<int>(sums[i]);
}

// block 32
extern "C" __global__ void rows_of_a_matrix_run_into_the_next_array(const int* a, int* b, int* out, int n) {
    __shared__ __align__(16) half left[8 * 8];
    __shared__ __align__(16) half right[8 * 8];
    for (int i = threadIdx.x; i < 64; i += 32) left[i] = right[i] = __int2half_rn(a[i] % 8);
    __syncwarp();
    const int row = threadIdx.x % 8 + 1;
    unsigned found;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"  // BUG out_of_bounds_read
                 : "=r"(found) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(left + row * 8))) : "memory");
    out[threadIdx.x] = found + __half2int_rn(right[threadIdx.x]);
}
