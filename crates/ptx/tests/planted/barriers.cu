// One mistake per kernel, in who waits for whom. See memory.cu for the marks.

// block 64
extern "C" __global__ void barriers_of_both_ways(const int* a, int* b, int* out, int n) {
    if (threadIdx.x < 32) {
        out[threadIdx.x] = a[threadIdx.x];
        __syncthreads();  // BUG divergent_barrier
        out[threadIdx.x + 64] = 1;
    } else {
        __syncthreads();
        out[threadIdx.x] = a[3];
    }
}

// block 64
extern "C" __global__ void some_go_round_once_more(const int* a, int* b, int* out, int n) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    const int rounds = 2 + a[threadIdx.x / 32];
    for (int i = 0; i < rounds; ++i) {
        atomicAdd(&sum, a[i]);
        __syncthreads();  // BUG divergent_barrier
    }
    out[threadIdx.x] = rounds;
}

// block 64
extern "C" __global__ void waits_for_a_third_warp(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x];
    asm volatile("bar.sync 2, 96;" ::: "memory");  // BUG deadlock
    out[threadIdx.x] = 0;
}

// block 32
extern "C" __global__ void halves_shuffle_apart(const int* a, int* b, int* out, int n) {
    int value = a[threadIdx.x];
    if (value < 16) {
        value = __shfl_sync(0xffffffff, value * a[1], 3);  // BUG deadlock
        out[threadIdx.x] = value;
    } else {
        value = __shfl_sync(0xffffffff, value - a[1], 20);
        out[threadIdx.x + 32] = value + 1;
    }
}

// block 32
extern "C" __global__ void lane_is_not_in_its_own_mask(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = __shfl_sync(0x0000ffff, a[threadIdx.x], 0);  // BUG invalid_operands
}

// block 32
extern "C" __global__ void asks_a_lane_that_left(const int* a, int* b, int* out, int n) {
    if (threadIdx.x >= 16) return;
    out[threadIdx.x] = __shfl_sync(0xffff, a[threadIdx.x], 24);  // BUG uninitialised_store
}

// block 64
extern "C" __global__ void expects_one_more(const int* a, int* b, int* out, int n) {
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 65;" :: "r"(at) : "memory");
    __syncthreads();
    unsigned long long token;
    unsigned done = 0;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"  // BUG deadlock
                     : "=r"(done) : "r"(at), "l"(token) : "memory");
    out[threadIdx.x] = done;
}

// block 64
extern "C" __global__ void arrives_before_it_exists(const int* a, int* b, int* out, int n) {
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory");  // OTHER
    __syncwarp();
    unsigned long long token;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");  // BUG shared_race
    out[threadIdx.x] = a[threadIdx.x];
}

// block 32
extern "C" __global__ void waits_for_a_flag_nobody_sets(const int* a, int* b, int* out, int n) {
    volatile int* flag = const_cast<int*>(a);
    while (flag[0] == 0) {  // BUG budget_exhausted
    }
    out[threadIdx.x] = 1;
}

// block 32
extern "C" __global__ void counts_past_the_end(const int* a, int* b, int* out, int n) {
    unsigned i = a[1];
    for (; i != 0; i += 2) out[i & 31] = i;  // BUG budget_exhausted
}

// block 32
extern "C" __global__ void breaks_its_promise(const int* a, int* b, int* out, int n) {
    assert(a[threadIdx.x] < 31);  // BUG assertion
    out[threadIdx.x] = a[threadIdx.x];
}

// block 32
extern "C" __global__ void gives_up(const int* a, int* b, int* out, int n) {
    if (a[threadIdx.x] == 30) __trap();  // BUG trap
    out[threadIdx.x] = a[threadIdx.x];
}

typedef int (*Function)(int);
__device__ __noinline__ int successor(int x) { return x + 1; }
__device__ Function functions[2] = {successor, nullptr};

// block 32
extern "C" __global__ void calls_nothing(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = functions[a[threadIdx.x] / 31](a[threadIdx.x]);  // BUG illegal_address
}

// block 64
extern "C" __global__ void expects_two_numbers_of_threads(const int* a, int* b, int* out, int n) {
    if (threadIdx.x < 32) {
        out[threadIdx.x] = a[threadIdx.x];
        asm volatile("bar.sync 1, 64;" ::: "memory");  // BUG divergent_barrier
    } else {
        out[threadIdx.x] = a[threadIdx.x] + 1;
        asm volatile("bar.sync 1, 32;" ::: "memory");
    }
}

// block 96
extern "C" __global__ void one_warp_more_than_is_expected(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x];
    asm volatile("bar.sync 3, 64;" ::: "memory");  // BUG deadlock
    out[threadIdx.x] = 0;
}

// block 32
extern "C" __global__ void lanes_pass_over_the_shuffle(const int* a, int* b, int* out, int n) {
    int value = a[threadIdx.x];
    if (threadIdx.x < 24) value += __shfl_xor_sync(0xffffffff, value, 1);  // BUG invalid_operands
    out[threadIdx.x] = value;
}
