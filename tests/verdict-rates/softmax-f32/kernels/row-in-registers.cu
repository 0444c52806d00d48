/*---
[[launch]]
kernel = "k"
grid = ["R"]
block = [256]
args = ["x", "y", "R", "C"]
---*/
extern "C" __global__ void k(const float* x, float* y, int R, int C){
    // Up to 8192 elements of a row stay in registers.
    __shared__ float partial[8];
    const float* row = x + size_t(blockIdx.x) * C;
    float kept[32];
    float top = -INFINITY;
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (i * 256 >= C) break;
        const int c = i * 256 + threadIdx.x;
        kept[i] = c < C ? row[c] : -INFINITY;
        top = fmaxf(top, kept[i]);
    }
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < 8; ++w) top = fmaxf(top, partial[w]);
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (i * 256 >= C) break;
        kept[i] = expf(kept[i] - top);
        sum += kept[i];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < 8; ++w) sum += partial[w];
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (i * 256 >= C) break;
        const int c = i * 256 + threadIdx.x;
        if (c < C) {
            /*@out*/ y[size_t(blockIdx.x) * C + c] = kept[i] / sum;
        }
    }
}
