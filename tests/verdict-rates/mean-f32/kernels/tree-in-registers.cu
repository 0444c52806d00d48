/*---
[[launch]]
kernel = "k"
grid = ["R"]
block = [32]
args = ["x", "mean", "R", "C"]
---*/
extern "C" __global__ void k(const float* x, float* mean, int R, int C){
    // Sixteen partial sums in each thread, added pairwise; tails by selection.
    const float* row = x + size_t(blockIdx.x) * C;
    float parts[16] = {};
    for (int begin = 0; begin < C; begin += 512) {
        #pragma unroll
        for (int p = 0; p < 16; ++p) {
            const int c = begin + p * 32 + threadIdx.x;
            parts[p] += c < C ? row[c] : 0.0f;
        }
    }
    #pragma unroll
    for (int d = 8; d > 0; d /= 2)
        #pragma unroll
        for (int p = 0; p < d; ++p) parts[p] += parts[p + d];
    float sum = parts[0];
    for (int d = 1; d < 32; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) {
        /*@out*/ mean[blockIdx.x] = __fdividef(sum, C);
    }
}
