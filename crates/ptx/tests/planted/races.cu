// One mistake per kernel, in how the threads of a block are ordered. See memory.cu for the marks.

// block 64
extern "C" __global__ void reversed_without_barrier(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    tile[threadIdx.x] = a[threadIdx.x];  // OTHER
    out[threadIdx.x] = tile[63 - threadIdx.x];  // BUG shared_race
}

// block 64
extern "C" __global__ void neighbours_without_barrier(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    tile[threadIdx.x] = a[threadIdx.x];  // OTHER
    out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];  // BUG shared_race
}

// block 64
extern "C" __global__ void next_tile_comes_too_early(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    int sum = 0;
    for (int start = 0; start < n; start += 64) {
        tile[threadIdx.x] = a[start + threadIdx.x];  // BUG shared_race
        __syncthreads();
        for (int i = 0; i < 64; ++i) sum += tile[(i + threadIdx.x) % 64] * i;  // OTHER
    }
    out[threadIdx.x] = sum;
}

// block 32
extern "C" __global__ void warp_without_synchronisation(const int* a, int* b, int* out, int n) {
    __shared__ int tile[32];
    tile[threadIdx.x] = a[threadIdx.x];  // OTHER
    out[threadIdx.x] = tile[31 - threadIdx.x];  // BUG warp_race
}

// block 64
extern "C" __global__ void tree_ends_without_synchronisation(const int* a, int* b, int* out, int n) {
    __shared__ int sums[64];
    sums[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32)
        for (int step = 32; step > 0; step /= 2) sums[threadIdx.x] += sums[threadIdx.x + step];  // BUG warp_race
    __syncthreads();
    out[threadIdx.x] = sums[0];
}

// block 128
extern "C" __global__ void bins_are_cleared_too_late(const int* a, int* b, int* out, int n) {
    __shared__ int bins[8];
    if (threadIdx.x >= 120) bins[threadIdx.x - 120] = 0;  // BUG shared_race
    atomicAdd(&bins[a[threadIdx.x] & 7], 1);  // OTHER
    __syncthreads();
    out[threadIdx.x] = bins[threadIdx.x & 7];
}

// block 128
extern "C" __global__ void bins_are_read_too_early(const int* a, int* b, int* out, int n) {
    __shared__ int bins[128];
    bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[(a[threadIdx.x] * 37) & 127], 1);  // BUG shared_race
    out[threadIdx.x] = bins[threadIdx.x];  // OTHER
}

// block 64
extern "C" __global__ void broadcast_is_not_awaited(const int* a, int* b, int* out, int n) {
    __shared__ int limit;
    if (threadIdx.x == 0) limit = a[5];  // OTHER
    out[threadIdx.x] = limit;  // BUG shared_race
}

// block 64
extern "C" __global__ void two_threads_share_a_slot(const int* a, int* b, int* out, int n) {
    __shared__ int kept[32];
    kept[threadIdx.x % 32] = a[threadIdx.x];  // BUG shared_race
    __syncthreads();
    out[threadIdx.x] = kept[threadIdx.x / 2];
}

// block 96
extern "C" __global__ void named_barrier_of_the_wrong_half(const int* a, int* b, int* out, int n) {
    __shared__ int tile[32];
    if (threadIdx.x < 32) {
        tile[threadIdx.x] = a[threadIdx.x];  // OTHER
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x] = tile[63 - threadIdx.x];
    } else {
        out[threadIdx.x] = tile[95 - threadIdx.x];  // BUG shared_race
    }
}

// block 64
extern "C" __global__ void one_buffer_for_two_stages(const int* a, int* b, int* out, int n) {
    __shared__ int stage[2][64];
    int sum = 0;
    stage[0][threadIdx.x] = a[threadIdx.x];
    for (int t = 0; t < 3; ++t) {
        __syncthreads();
        stage[t % 2][threadIdx.x] = a[(t + 1) * 64 + threadIdx.x];  // BUG shared_race
        sum += stage[t % 2][63 - threadIdx.x];  // OTHER
    }
    out[threadIdx.x] = sum;
}

// block 64
extern "C" __global__ void flag_without_fence(const int* a, int* b, int* out, int n) {
    __shared__ int value;
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = a[9];  // OTHER
        ready = 1;
    }
    if (threadIdx.x == 32) {
        while (ready == 0) {
        }
        out[1] = value;  // BUG shared_race
    }
}

// block 32
extern "C" __global__ void sums_of_a_warp_by_volatile_alone(const int* a, int* b, int* out, int n) {
    __shared__ volatile int sums[64];
    const int t = threadIdx.x;
    sums[t] = a[t];
    sums[t + 32] = 0;
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) sums[t] = sums[t] + sums[t + step];  // BUG warp_race
    __syncwarp();
    out[t] = sums[0];
}

__device__ int read_relaxed(const int* p) {
    int value;
    asm volatile("ld.relaxed.cta.shared.s32 %0, [%1];" : "=r"(value) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))) : "memory");
    return value;
}

__device__ void write_relaxed(int* p, int value) {
    asm volatile("st.relaxed.cta.shared.s32 [%0], %1;" :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))), "r"(value) : "memory");
}

// block 32, schedules
extern "C" __global__ void sums_of_a_warp_by_relaxed_accesses(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    __shared__ int sums[64];
    const int t = threadIdx.x;
    write_relaxed(sums + t, a[t]);
    write_relaxed(sums + t + 32, 0);
    for (int step = 16; step > 0; step /= 2) write_relaxed(sums + t, read_relaxed(sums + t) + read_relaxed(sums + t + step));
    out[t] = read_relaxed(sums);
}

// block 96
extern "C" __global__ void one_fetcher_of_two_is_not_told(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    const int t = threadIdx.x, lane = t % 32;
    if (t < 32) {
        // Reads what both others fetch, and tells the first one only that it may fetch again.
        int sum = 0;
        for (int s = 0; s < 2; ++s) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
            sum += tile[lane] + tile[63 - lane];  // OTHER
            if (s == 0) asm volatile("bar.arrive 3, 64;" ::: "memory");
        }
        out[t] = sum;
    } else if (t < 64) {
        for (int s = 0; s < 2; ++s) {
            if (s == 1) asm volatile("bar.sync 3, 64;" ::: "memory");
            tile[lane] = a[s * 64 + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else {
        tile[32 + lane] = a[32 + lane];
        asm volatile("bar.arrive 2, 64;" ::: "memory");
        for (int i = 0; i < a[40]; ++i) asm volatile("nanosleep.u32 20;");
        tile[32 + lane] = a[96 + lane];  // BUG shared_race
        asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
}

// block 64
extern "C" __global__ void announces_itself_and_writes_on(const int* a, int* b, int* out, int n) {
    __shared__ int tile[32];
    const int t = threadIdx.x;
    if (t < 32) {
        tile[t] = a[t];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        tile[t] = a[t + 1];  // OTHER
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = tile[63 - t];  // BUG shared_race
    }
}

// block 64
extern "C" __global__ void waits_for_the_phase_before(const int* a, int* b, int* out, int n) {
    __shared__ int tile[32];
    __shared__ __align__(8) unsigned long long object;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&object));
    const int t = threadIdx.x;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory");
    __syncthreads();
    auto arrive = [&] { asm volatile("{\n.reg .b64 token;\nmbarrier.arrive.shared.b64 token, [%0];\n}" :: "r"(at) : "memory"); };
    auto wait = [&] {
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\nmbarrier.test_wait.parity.shared.b64 done, [%0], 0;\n@!done bra AGAIN;\n}\n"
            :: "r"(at) : "memory");
    };
    arrive();
    wait();
    if (t < 32) {
        tile[t] = a[t];  // OTHER
        arrive();
    } else {
        // The first phase again, not the one that the other warp has arrived in.
        wait();
        out[t] = tile[63 - t];  // BUG shared_race
    }
}

// block 64
extern "C" __global__ void reversed_through_device_memory(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x];  // OTHER
    out[threadIdx.x + 64] = out[63 - threadIdx.x];  // BUG global_race
}

// block 64
extern "C" __global__ void overwritten_before_the_other_warp_has_read(const int* a, int* b, int* out, int n) {
    int* values = const_cast<int*>(a);
    out[threadIdx.x] = values[threadIdx.x % 32];  // OTHER
    if (threadIdx.x >= 32) values[threadIdx.x - 32] = out[threadIdx.x] + 1;  // BUG global_race
}

// block 64
extern "C" __global__ void told_through_device_memory_without_a_fence(const int* a, int* b, int* out, int n) {
    volatile int* flag = const_cast<int*>(a);
    if (threadIdx.x == 0) {
        out[3] = a[9];  // OTHER
        flag[0] = 1;
    }
    if (threadIdx.x == 32) {
        while (flag[0] == 0) {
        }
        out[1] = out[3];  // BUG global_race
    }
}

// block 64
extern "C" __global__ void plain_read_beside_volatile_writes(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    volatile int* shown = tile;
    shown[threadIdx.x] = a[threadIdx.x];  // OTHER
    out[threadIdx.x] = tile[63 - threadIdx.x];  // BUG shared_race
}
