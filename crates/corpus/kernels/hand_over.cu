// Tiles in shared memory that many warps read and one or more warps write again, ordered by other means than
// __syncthreads(): mbarriers, libcu++'s barriers and pipelines, named barriers of part of a block.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

constexpr int THREADS = 256;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Reads words of many warps, so that every warp reads what every warp wrote.
__device__ int mixed(const int* tile, int thread, int step) {
    return tile[(thread * 37 + step) % THREADS] - 2 * tile[THREADS - 1 - thread];
}

extern "C" __global__ void all_meet_at_two_barriers(const int* x, int* out, int tiles) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ int tile[THREADS];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&full, THREADS);
        init(&empty, THREADS);
    }
    __syncthreads();
    int sum = 0;
    for (int s = 0; s < tiles; ++s) {
        tile[t] = x[s * THREADS + t];
        full.arrive_and_wait();
        sum += mixed(tile, t, s);
        empty.arrive_and_wait();
    }
    out[t] = sum;
}

// One object, whose phases alternate between full and empty, asked by parity.
extern "C" __global__ void all_meet_at_one_object(const int* x, int* out, int tiles) {
    __shared__ int tile[THREADS];
    __shared__ __align__(8) unsigned long long object;
    const int t = threadIdx.x;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&object)), "r"(THREADS) : "memory");
    __syncthreads();
    unsigned phase = 0;
    auto meet = [&] {
        asm volatile(
            "{\n.reg .b64 token;\n.reg .pred done;\nmbarrier.arrive.shared.b64 token, [%0];\n"
            "AGAIN:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN;\n}\n"
            :: "r"(shared_address(&object)), "r"(phase) : "memory");
        phase ^= 1;
    };
    int sum = 0;
    for (int s = 0; s < tiles; ++s) {
        tile[t] = x[s * THREADS + t];
        meet();
        sum += mixed(tile, t, s);
        meet();
    }
    out[t] = sum;
}

// One lane of each warp arrives for its warp, after the warp has met.
extern "C" __global__ void one_lane_arrives_for_its_warp(const int* x, int* out, int tiles) {
    __shared__ int tile[THREADS];
    __shared__ __align__(8) unsigned long long full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&full)), "r"(THREADS / 32) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&empty)), "r"(THREADS / 32) : "memory");
    }
    __syncthreads();
    auto arrive = [&](unsigned long long* object) {
        __syncwarp();
        if (t % 32 == 0) asm volatile("{\n.reg .b64 token;\nmbarrier.arrive.shared.b64 token, [%0];\n}" :: "r"(shared_address(object)) : "memory");
    };
    auto wait = [&](unsigned long long* object, unsigned parity) {
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN;\n}\n"
            :: "r"(shared_address(object)), "r"(parity) : "memory");
    };
    int sum = 0;
    for (int s = 0; s < tiles; ++s) {
        if (s > 0) wait(&empty, (s - 1) & 1);
        tile[t] = x[s * THREADS + t];
        arrive(&full);
        wait(&full, s & 1);
        sum += mixed(tile, t, s);
        arrive(&empty);
    }
    out[t] = sum;
}

extern "C" __global__ void all_share_a_pipeline(const int* x, int* out, int tiles) {
    constexpr int STAGES = 3;
    __shared__ int buffer[STAGES][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int s = 0, fetch = 0; s < tiles; ++s) {
        for (; fetch < tiles && fetch < s + STAGES; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % STAGES], x + fetch * THREADS, sizeof(int) * THREADS, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += mixed(buffer[s % STAGES], threadIdx.x, s);
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

__device__ void meet(int id, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ void announce(int id, int threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }

// The last two warps of ten fetch halves of a tile, each with barriers of its own; the other eight read all of it.
extern "C" __global__ void two_warps_fetch_for_eight(const int* x, int* out, int tiles) {
    __shared__ int tile[2][THREADS];
    const int t = threadIdx.x, lane = t % 32;
    if (t >= THREADS) {
        const int half = (t - THREADS) / 32;
        for (int s = 0; s < tiles; ++s) {
            if (s >= 2) meet(1 + 4 * half + 2 + s % 2, THREADS + 32);
            for (int i = lane; i < THREADS / 2; i += 32)
                tile[s % 2][half * THREADS / 2 + i] = x[s * THREADS + half * THREADS / 2 + i];
            announce(1 + 4 * half + s % 2, THREADS + 32);
        }
        return;
    }
    int sum = 0;
    for (int s = 0; s < tiles; ++s) {
        meet(1 + s % 2, THREADS + 32);
        meet(5 + s % 2, THREADS + 32);
        sum += mixed(tile[s % 2], t, s);
        if (s + 2 < tiles) {
            announce(3 + s % 2, THREADS + 32);
            announce(7 + s % 2, THREADS + 32);
        }
    }
    out[t] = sum;
}

// The same barrier of the whole block, met by whole warps from different places.
extern "C" __global__ void warps_meet_from_two_places(const int* x, int* out, int tiles) {
    __shared__ int tile[THREADS];
    const int t = threadIdx.x;
    int sum = 0;
    for (int s = 0; s < tiles; ++s) {
        if (t / 32 % 2 == 0) {
            tile[t] = x[s * THREADS + t];
            asm volatile("barrier.sync 0;" ::: "memory");
            sum += mixed(tile, t, s);
        } else {
            tile[t] = 3 * x[s * THREADS + t] - 2 * x[s * THREADS + t];
            asm volatile("barrier.sync 0;" ::: "memory");
            sum -= -mixed(tile, t, s);
        }
        __syncthreads();
    }
    out[t] = sum;
}
