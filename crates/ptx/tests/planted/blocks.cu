// One mistake per kernel, in what blocks expect of each other. See memory.cu for the marks.

// grid 2, block 32
extern "C" __global__ void blocks_write_the_same(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = blockIdx.x;  // BUG global_race
}

// grid 4, block 64
extern "C" __global__ void stencil_in_place(const int* a, int* b, int* out, int n) {
    int* x = const_cast<int*>(a);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int left = i > 0 ? x[i - 1] : 0, right = i < n - 1 ? x[i + 1] : 0;  // OTHER
    __syncthreads();
    x[i] = left + right;  // BUG global_race
}

// grid 2, block 64
extern "C" __global__ void reads_the_other_blocks_result(const int* a, int* b, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i];  // OTHER
    __syncthreads();
    if (blockIdx.x == 1) out[i + 128] = out[i - 64];  // BUG global_race
}

// grid 4, block 1
extern "C" __global__ void counts_without_an_atomic(const int* a, int* b, int* out, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 1) out[0] = 0;
    const_cast<int*>(a)[0] += 1;  // BUG global_race
}

__device__ unsigned tickets;

// grid 3, block 32
extern "C" __global__ void last_block_without_a_fence(const int* a, int* b, int* out, int n) {
    __shared__ bool last;
    b[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x];  // OTHER
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = b[threadIdx.x] + b[32 + threadIdx.x];  // BUG global_race
}

__device__ volatile int published;

// grid 2, block 32
extern "C" __global__ void message_without_a_fence(const int* a, int* b, int* out, int n) {
    if (blockIdx.x == 0) {
        b[threadIdx.x] = a[threadIdx.x];  // OTHER
        __syncthreads();
        if (threadIdx.x == 0) published = 1;
    } else {
        while (published == 0) {
        }
        out[threadIdx.x] = b[threadIdx.x];  // BUG global_race
    }
}

// grid 3, block 32
extern "C" __global__ void fence_comes_before_the_write(const int* a, int* b, int* out, int n) {
    __shared__ bool last;
    __threadfence();
    b[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x];  // OTHER
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = b[threadIdx.x] + b[32 + threadIdx.x];  // BUG global_race
}

// grid 3, block 32
extern "C" __global__ void last_block_that_does_not_look_past_its_cache(const int* a, int* b, int* out, int n) {
    __shared__ bool last;
    b[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x];  // OTHER
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = b[threadIdx.x] + b[32 + threadIdx.x];  // BUG global_race
}

// grid 2, block 32
extern "C" __global__ void message_that_is_polled_and_not_acquired(const int* a, int* b, int* out, int n) {
    if (blockIdx.x == 0) {
        b[threadIdx.x] = a[threadIdx.x];  // OTHER
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) published = 1;
    } else {
        while (atomicAdd((int*)&published, 0) == 0) {
        }
        __threadfence_block();
        out[threadIdx.x] = b[threadIdx.x];  // BUG global_race
    }
}

__device__ int winner;

// grid 4, block 32, schedules
extern "C" __global__ void last_to_come_wins(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    if (threadIdx.x == 0) atomicExch(&winner, blockIdx.x);
    out[blockIdx.x] = 7;
    if (threadIdx.x == 0) out[100 + blockIdx.x] = atomicAdd(&tickets, 1u);
}

// grid 4, block 32, schedules
extern "C" __global__ void sums_in_any_order(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    float* total = reinterpret_cast<float*>(const_cast<int*>(a));
    // Small numbers are lost once the large one is there.
    atomicAdd(total, blockIdx.x == 0 && threadIdx.x == 0 ? 1.0e9f : 17.0f);
}

// grid 1, block 64
extern "C" __global__ void reads_its_own_result_as_if_nobody_wrote(const int* a, int* b, int* out, int n) {
    b[threadIdx.x] = a[threadIdx.x];  // OTHER
    __syncthreads();
    out[threadIdx.x] = __ldg(b + 63 - threadIdx.x);  // BUG global_race
}

__device__ int arrived;

// grid 2, block 32
extern "C" __global__ void reads_a_message_as_if_nobody_wrote(const int* a, int* b, int* out, int n) {
    if (blockIdx.x == 0) {
        b[threadIdx.x] = a[threadIdx.x];  // OTHER
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(&arrived, 1);
    } else {
        while (atomicAdd(&arrived, 0) == 0) {
        }
        __threadfence();
        __syncwarp();
        out[threadIdx.x] = __ldg(b + threadIdx.x);  // BUG global_race
    }
}

// grid 1, block 32
extern "C" __global__ void reads_a_sum_as_if_nobody_added(const int* a, int* b, int* out, int n) {
    int* total = const_cast<int*>(a);
    atomicAdd(total, 1);
    __threadfence();
    __syncwarp();
    out[threadIdx.x] = __ldg(total);  // BUG global_race
}

// grid 2, block 32
extern "C" __global__ void message_for_its_own_block(const int* a, int* b, int* out, int n) {
    int* flag = const_cast<int*>(a) + 100;
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            int old;
            __threadfence();
            asm volatile("atom.relaxed.cta.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(flag), "r"(1) : "memory");  // OTHER
        }
    } else {
        while (atomicAdd(flag, 0) == 100) {  // BUG global_race
        }
        out[threadIdx.x] = threadIdx.x;
    }
}

// grid 4, block 32
extern "C" __global__ void counts_for_its_own_block(const int* a, int* b, int* out, int n) {
    if (threadIdx.x == 0) atomicAdd_block(const_cast<int*>(a), 1);  // BUG global_race
}

__device__ unsigned multiprocessor() {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// grid 58, block 1, schedules
extern "C" __global__ void one_share_for_each_multiprocessor(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    atomicExch(const_cast<int*>(a) + multiprocessor(), 7);
    out[blockIdx.x] = 0;
}

__device__ unsigned warp_of_multiprocessor() {
    unsigned number;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(number));
    return number;
}

// grid 1, block 64, schedules
extern "C" __global__ void one_share_for_each_numbered_warp(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    out[warp_of_multiprocessor() * 4] = 7;
}

// grid 8, block 32
extern "C" __global__ void adds_without_an_atomic(const int* a, int* b, int* out, int n) {
    volatile int* sum = const_cast<int*>(a) + threadIdx.x;
    // Blocks come to their sums at different times.
    int own = 0;
    for (int i = 0; i < 10 * (blockIdx.x + 1); ++i) own += a[100 + i];
    *sum = *sum + own;  // BUG global_race
}

// grid 8, block 32, schedules
extern "C" __global__ void adds_by_relaxed_accesses(const int* a, int* b, int* out, int n) {  // BUG schedule_dependent
    int* sum = const_cast<int*>(a) + threadIdx.x;
    int own = 0, before;
    for (int i = 0; i < 10 * (blockIdx.x + 1); ++i) own += a[100 + i];
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(before) : "l"(sum) : "memory");
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" :: "l"(sum), "r"(before + own) : "memory");
}

// grid 3, block 32
extern "C" __global__ void last_block_reads_volatile_without_the_writers_fence(const int* a, int* b, int* out, int n) {
    __shared__ bool last;
    volatile int* part = b;
    part[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x];  // OTHER
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = part[threadIdx.x] + part[32 + threadIdx.x] + part[64 + threadIdx.x];  // BUG global_race
}

// grid 2, block 32
extern "C" __global__ void message_read_past_the_cache_and_never_fenced(const int* a, int* b, int* out, int n) {
    if (blockIdx.x == 0) {
        b[threadIdx.x] = a[threadIdx.x];  // OTHER
        __syncthreads();
        if (threadIdx.x == 0) published = 1;
    } else {
        while (published == 0) {
        }
        int value;
        asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(value) : "l"(b + threadIdx.x) : "memory");  // BUG global_race
        out[threadIdx.x] = value;
    }
}
