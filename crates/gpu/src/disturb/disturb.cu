// Kernels that change conditions which no candidate may depend on: the initial contents of shared memory
// and registers, and other work on the device. Compiled like every other source,
// for the device's architecture; `disturb.rs` launches it.

// Words that a thread holds in registers. With 1024 threads they take the better part of a
// multiprocessor's 65536, and there are enough left to compute with.
constexpr int HELD = 40;

__device__ unsigned next(unsigned state) {
    // Multiplicative congruence modulo 2^32, Knuth's multiplier: any words will do that differ.
    return state * 1664525u + 1013904223u;
}

__device__ unsigned first(unsigned long long seed, unsigned thread) {
    return static_cast<unsigned>(seed) ^ static_cast<unsigned>(seed >> 32) ^ (thread * 2654435761u);
}

// Fills a block's shared memory and its threads' registers. `marks` gets one word for each block,
// which depends on all of them, so that nothing can be left out.
extern "C" __global__ void __launch_bounds__(1024, 1)
leave_garbage(unsigned long long seed, unsigned words, unsigned* marks) {
    extern __shared__ unsigned shared[];
    unsigned state = first(seed, blockIdx.x * blockDim.x + threadIdx.x);
    for (unsigned at = threadIdx.x; at < words; at += blockDim.x) {
        state = next(state);
        shared[at] = state;
    }
    __syncthreads();
    volatile unsigned* stored = shared;
    unsigned held[HELD];
#pragma unroll
    for (int i = 0; i < HELD; ++i) held[i] = stored[(threadIdx.x + i * blockDim.x) % words];
    __syncthreads();
    // Known only now, and needed before the first of them can be used up: until here all are held.
    const unsigned factor = stored[(threadIdx.x + 1) % words] | 1u;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < HELD; ++i) sum = (sum ^ held[i]) * factor;
    atomicXor(&marks[blockIdx.x], sum);
}

// Fills the stacks of its threads, of so many bytes each.
#define LEAVE_STACK(BYTES)                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) leave_stack_##BYTES(unsigned long long seed) {        \
        volatile unsigned stack[BYTES / 4];                                                                 \
        unsigned state = first(seed, blockIdx.x * blockDim.x + threadIdx.x);                                \
        for (int i = 0; i < BYTES / 4; ++i) stack[i] = state = next(state);                                 \
    }

LEAVE_STACK(256)
LEAVE_STACK(1024)
LEAVE_STACK(4096)
LEAVE_STACK(16384)
LEAVE_STACK(65536)

// Occupies a multiprocessor for each block and keeps rewriting memory, until told to leave or after
// so many turns. `gone` says afterwards that the first block has ended.
extern "C" __global__ void __launch_bounds__(256, 1)
keep_company(unsigned long long seed, unsigned* memory, unsigned words, const volatile unsigned* leave,
             volatile unsigned* gone, unsigned long long turns) {
    extern __shared__ unsigned shared[];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = first(seed, thread);
    for (unsigned long long turn = 0; turn < turns; ++turn) {
        for (unsigned at = thread; at < words; at += gridDim.x * blockDim.x) {
            state = next(state);
            memory[at] = state;
        }
        // One thread asks the host's memory; the others hear of it.
        if (threadIdx.x == 0) shared[0] = *leave;
        __syncthreads();
        const unsigned over = shared[0];
        __syncthreads();
        if (over != 0) break;
    }
    if (thread == 0) {
        __threadfence_system();
        *gone = 1;
    }
}
