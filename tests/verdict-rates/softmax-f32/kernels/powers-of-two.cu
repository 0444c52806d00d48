/*---
[[launch]]
kernel = "k"
grid = ["R"]
block = [64]
args = ["x", "y", "R", "C"]
---*/
extern "C" __global__ void k(const float* x, float* y, int R, int C){
    __shared__ float shared[2];
    const float* row = x + size_t(blockIdx.x) * C;
    const float factor = 1.4426950408889634f;
    float top = -INFINITY;
    for (int c = threadIdx.x; c < C; c += 64) top = fmaxf(top, row[c]);
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = top;
    __syncthreads();
    top = fmaxf(shared[0], shared[1]) * factor;
    __syncthreads();
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 64) {
        float e;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(__fmaf_rn(row[c], factor, -top)));
        sum += e;
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(shared[0] + shared[1]));
    for (int c = threadIdx.x; c < C; c += 64) /*@out*/ y[size_t(blockIdx.x) * C + c] = exp2f(__fmaf_rn(row[c], factor, -top)) * inverse;
}
