// Quantised products: dp4a with a scale per row, and mma.sync on signed bytes with a saturating epilogue.
extern "C" __global__ void gemv_dp4a(const int* weights, const int* x, const float* scales, float* y, int packed) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = 0;
    for (int i = lane; i < packed; i += 32) sum = __dp4a(weights[row * packed + i], x[i], sum);
    sum = __reduce_add_sync(~0u, sum);
    if (lane == 0) y[row] = sum * scales[row];
}

extern "C" __global__ void gemm_s8(const signed char* a, const signed char* b_transposed, signed char* c, int n, int k, float scale) {
    const int lane = threadIdx.x, row0 = blockIdx.y * 16, column0 = blockIdx.x * 8;
    int sum[4] = {};
    for (int t = 0; t < k; t += 32) {
        const int group = lane / 4, place = t + lane % 4 * 4;
        const int x0 = *(const int*)&a[(row0 + group) * k + place], x1 = *(const int*)&a[(row0 + group + 8) * k + place];
        const int x2 = *(const int*)&a[(row0 + group) * k + place + 16], x3 = *(const int*)&a[(row0 + group + 8) * k + place + 16];
        const int y0 = *(const int*)&b_transposed[(column0 + group) * k + place];
        const int y1 = *(const int*)&b_transposed[(column0 + group) * k + place + 16];
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                     : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
    }
    for (int i = 0; i < 4; ++i) {
        int rounded;
        asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(sum[i] * scale));
        c[(row0 + lane / 4 + i / 2 * 8) * n + column0 + lane % 4 * 2 + i % 2] = rounded;
    }
}
