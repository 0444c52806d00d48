// 8-bit floats: converted on the fly for a plain product, and multiplied by mma.sync as they are.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void quantise(const float* x, __nv_fp8_e4m3* y, __nv_fp8_e5m2* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = __nv_fp8_e4m3(x[i]);
    z[i] = __nv_fp8_e5m2(x[i]);
}

extern "C" __global__ void gemv_fp8(const __nv_fp8x4_e4m3* weights, const float4* x, float* y, int packed, float scale) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < packed; i += blockDim.x) {
        const float4 w = static_cast<float4>(weights[blockIdx.x * packed + i]), v = x[i];
        sum += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum * scale;
}

extern "C" __global__ void gemm_e4m3(const unsigned char* a, const unsigned char* b_transposed, float* c, int n, int k) {
    const int lane = threadIdx.x, row0 = blockIdx.y * 16, column0 = blockIdx.x * 8;
    float sum[4] = {};
    for (int t = 0; t < k; t += 32) {
        const int group = lane / 4, place = t + lane % 4 * 4;
        const int x0 = *(const int*)&a[(row0 + group) * k + place], x1 = *(const int*)&a[(row0 + group + 8) * k + place];
        const int x2 = *(const int*)&a[(row0 + group) * k + place + 16], x3 = *(const int*)&a[(row0 + group + 8) * k + place + 16];
        const int y0 = *(const int*)&b_transposed[(column0 + group) * k + place];
        const int y1 = *(const int*)&b_transposed[(column0 + group) * k + place + 16];
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
    }
    for (int i = 0; i < 4; ++i) c[(row0 + lane / 4 + i / 2 * 8) * n + column0 + lane % 4 * 2 + i % 2] = sum[i];
}
