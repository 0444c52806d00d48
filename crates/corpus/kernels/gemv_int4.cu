// Four-bit weights, unpacked to halves with lop3 and prmt as inference libraries do.
#include <cuda_fp16.h>

__device__ __forceinline__ void unpack(unsigned packed, __half2 (&out)[4]) {
    constexpr unsigned MAGIC = 0x64006400;  // 1024 as two halves: its last bits count ones.
    unsigned r[4];
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r[0]) : "r"(packed), "n"(0x000f000f), "n"(MAGIC));
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r[1]) : "r"(packed >> 4), "n"(0x000f000f), "n"(MAGIC));
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r[2]) : "r"(packed >> 8), "n"(0x000f000f), "n"(MAGIC));
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r[3]) : "r"(packed >> 12), "n"(0x000f000f), "n"(MAGIC));
    const __half2 offset = __float2half2_rn(1032.0f);
    for (int i = 0; i < 4; ++i) out[i] = __hsub2(*reinterpret_cast<__half2*>(&r[i]), offset);
}

// Each word holds eight weights: nibble i of the lower half is element 2 i, of the upper half element 2 i + 1.
extern "C" __global__ void gemv_int4(const unsigned* weights, const __half2* x, const __half* scales, __half* y, int words) {
    const int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0.0f;
    for (int w = lane; w < words; w += 32) {
        __half2 values[4];
        unpack(weights[row * words + w], values);
        for (int i = 0; i < 4; ++i) {
            const float2 product = __half22float2(__hmul2(values[i], x[w * 4 + i]));
            sum += product.x + product.y;
        }
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) y[row] = __float2half(sum * __half2float(scales[row]));
}

// Bytes to two floats at once: the byte becomes the last bits of 2^23.
extern "C" __global__ void bytes_to_floats(const unsigned* packed, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned word = packed[i];
    for (unsigned b = 0; b < 4; ++b) {
        const unsigned bits = __byte_perm(word, 0x4b000000, 0x7440 | b);
        out[4 * i + b] = __uint_as_float(bits) - 8388608.0f;
    }
}
