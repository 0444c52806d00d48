// Barriers as objects: cuda::barrier, cuda::pipeline with memcpy_async, and mbarrier in plain PTX.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

constexpr int THREADS = 64;

extern "C" __global__ void phases(const int* x, int* out, int rounds) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ int values[THREADS];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier done;
    if (threadIdx.x == 0) init(&done, THREADS);
    __syncthreads();
    values[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
    for (int round = 0; round < rounds; ++round) {
        done.arrive_and_wait();
        const int next = values[(threadIdx.x + 1) % THREADS];
        auto token = done.arrive();
        const int mixed = next * 3 + round;
        done.wait(std::move(token));
        values[threadIdx.x] = mixed;
    }
    out[blockIdx.x * THREADS + threadIdx.x] = values[threadIdx.x];
}

extern "C" __global__ void fetched(const float4* x, float* sums, int tiles) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) float4 tile[2][THREADS];
    __shared__ barrier full[2];
    auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x == 0) {
        init(&full[0], THREADS);
        init(&full[1], THREADS);
    }
    __syncthreads();
    cuda::memcpy_async(block, tile[0], x, sizeof(float4) * THREADS, full[0]);
    float sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) cuda::memcpy_async(block, tile[(t + 1) % 2], x + (t + 1) * THREADS, sizeof(float4) * THREADS, full[(t + 1) % 2]);
        full[t % 2].arrive_and_wait();
        const float4 v = tile[t % 2][THREADS - 1 - threadIdx.x];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
    sums[threadIdx.x] = sum;
}

extern "C" __global__ void staged(const int* x, int* out, int batches) {
    constexpr int STAGES = 2;
    __shared__ int buffer[STAGES][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int compute = 0, fetch = 0; compute < batches; ++compute) {
        for (; fetch < batches && fetch < compute + STAGES; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % STAGES], x + fetch * THREADS, sizeof(int) * THREADS, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += buffer[compute % STAGES][threadIdx.x ^ 1] * (compute + 1);
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Warp 0 fetches, the others compute, and two mbarriers per stage say who may touch it.
extern "C" __global__ void producer_consumer(const int* x, int* out, int tiles) {
    constexpr int CONSUMERS = 64;
    __shared__ __align__(16) int tile[2][128];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const int thread = threadIdx.x;
    if (thread == 0)
        for (int s = 0; s < 2; ++s) {
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&full[s])), "r"(32));
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&empty[s])), "r"(CONSUMERS));
        }
    __syncthreads();
    auto wait = [](unsigned long long* barrier, unsigned parity) {
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@done bra READY;\nbra AGAIN;\nREADY:\n}\n"
            :: "r"(shared_address(barrier)), "r"(parity) : "memory");
    };
    if (thread < 32) {
        for (int t = 0; t < tiles; ++t) {
            const int s = t % 2;
            if (t >= 2) wait(&empty[s], (t / 2 - 1) & 1);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(&tile[s][thread * 4])), "l"(x + t * 128 + thread * 4));
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(&full[s])));
        }
        asm volatile("cp.async.wait_all;");
    } else {
        int sum = 0;
        for (int t = 0; t < tiles; ++t) {
            const int s = t % 2;
            wait(&full[s], t / 2 & 1);
            sum += tile[s][thread - 32] - tile[s][127 - (thread - 32)];
            asm volatile("{\n.reg .b64 token;\nmbarrier.arrive.shared.b64 token, [%0];\n}" :: "r"(shared_address(&empty[s])) : "memory");
        }
        out[thread - 32] = sum;
    }
}

// The same hand-over with named barriers, as kernels before sm_80 do it.
extern "C" __global__ void named(const int* x, int* out, int tiles) {
    __shared__ int tile[2][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        for (int t = 0; t < tiles; ++t) {
            asm volatile("bar.sync %0, 64;" :: "r"(3 + t % 2) : "memory");
            tile[t % 2][lane] = x[t * 32 + lane];
            __threadfence_block();
            asm volatile("bar.arrive %0, 64;" :: "r"(1 + t % 2) : "memory");
        }
    } else {
        int sum = 0;
        asm volatile("bar.arrive 3, 64;" ::: "memory");
        asm volatile("bar.arrive 4, 64;" ::: "memory");
        for (int t = 0; t < tiles; ++t) {
            asm volatile("bar.sync %0, 64;" :: "r"(1 + t % 2) : "memory");
            sum += tile[t % 2][31 - lane];
            if (t + 2 < tiles) asm volatile("bar.arrive %0, 64;" :: "r"(3 + t % 2) : "memory");
        }
        out[lane] = sum;
    }
}
