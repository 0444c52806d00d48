// Functions that stay functions: not inlined, recursive, and reached through pointers; text and assertions.
typedef float (*Operation)(float, float);

__device__ __noinline__ float plus(float a, float b) { return a + b; }
__device__ __noinline__ float times(float a, float b) { return a * b; }
__device__ __noinline__ float larger(float a, float b) { return a > b ? a : b; }
__device__ Operation operations[3] = {plus, times, larger};

extern "C" __global__ void through_pointers(const float* x, const int* which, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = operations[which[i]](x[i], x[(i + 1) % n]);
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursive(unsigned* out) {
    out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3);
}

struct Big {
    double parts[5];
    int tag;
};

__device__ __noinline__ Big doubled(Big value, int times) {
    for (int i = 0; i < 5; ++i) value.parts[i] *= 2.0;
    value.tag += times;
    return times > 1 ? doubled(value, times - 1) : value;
}

extern "C" __global__ void structures(const double* x, double* out, int* tags) {
    Big value;
    for (int i = 0; i < 5; ++i) value.parts[i] = x[threadIdx.x * 5 + i];
    value.tag = threadIdx.x;
    const Big result = doubled(value, 1 + threadIdx.x % 4);
    for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = result.parts[i];
    tags[threadIdx.x] = result.tag;
}

// A quicksort with a stack of its own in local memory.
extern "C" __global__ void quicksort(int* x, int per_thread) {
    int* mine = x + (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
    int stack[64], top = 0;
    stack[top++] = 0;
    stack[top++] = per_thread - 1;
    while (top > 0) {
        const int high = stack[--top], low = stack[--top];
        if (low >= high) continue;
        const int pivot = mine[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (mine[i] < pivot) ++i;
            while (mine[j] > pivot) --j;
            if (i <= j) {
                const int other = mine[i];
                mine[i++] = mine[j];
                mine[j--] = other;
            }
        }
        stack[top++] = low;
        stack[top++] = j;
        stack[top++] = i;
        stack[top++] = high;
    }
    assert(top == 0);
    if (threadIdx.x == 1 && blockIdx.x == 0) printf("%s sorted %d numbers from %d to %d, %lld %5.1f%%\n", "thread 1", per_thread, mine[0], mine[per_thread - 1], 1ll << 40, 99.5);
}
