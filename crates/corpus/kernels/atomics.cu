// Every kind of atomic, on every type it is made for.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void all_atomics(int* i, unsigned* u, unsigned long long* w, float* f, double* d, __half* h, __nv_bfloat162* b, const int* x) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, value = x[t];
    atomicAdd(&i[0], value);
    atomicSub(&i[1], value);
    atomicMin(&i[2], value);
    atomicMax(&i[3], value);
    atomicAnd(&i[4], value);
    atomicOr(&i[5], value);
    atomicXor(&i[6], value);
    atomicInc(&u[0], 12);
    atomicDec(&u[1], 17);
    atomicMin(&u[2], (unsigned)value);
    atomicMax(&u[3], (unsigned)value);
    atomicAdd(&w[0], (unsigned long long)value);
    atomicMin((long long*)&w[1], (long long)value << 20);
    atomicXor(&w[2], 0x100000001ull * value);
    atomicAdd(&f[0], (float)(value % 64));
    atomicAdd(&d[0], value * 0.5);
    atomicAdd(&h[0], __int2half_rn(value & 1));
    atomicAdd(b, __floats2bfloat162_rn(value & 1, -(value & 2)));
    // The largest of floats by comparing and swapping.
    unsigned old = *(volatile unsigned*)&f[1], assumed;
    do {
        assumed = old;
        if (__uint_as_float(assumed) >= (float)value) break;
        old = atomicCAS((unsigned*)&f[1], assumed, __float_as_uint((float)value));
    } while (old != assumed);
    if (blockIdx.x == 0) atomicAdd_block(&i[7], 1);
    atomicAdd_system(&i[8], 2);
}

// A grid-wide exchange by acquire and release alone: block b waits for block b - 1 and adds its own number.
#include <cuda/atomic>

extern "C" __global__ void relay(const int* x, int* sums, int* flags) {
    if (threadIdx.x != 0) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> mine(flags[blockIdx.x]);
    int before = 0;
    if (blockIdx.x > 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> left(flags[blockIdx.x - 1]);
        while (left.load(cuda::memory_order_acquire) == 0) __nanosleep(10);
        before = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + x[blockIdx.x];
    mine.store(1, cuda::memory_order_release);
}
