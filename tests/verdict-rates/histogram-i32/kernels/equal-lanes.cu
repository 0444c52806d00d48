/*---
[[launch]]
kernel = "k"
grid = ["R"]
block = [128]
args = ["x", "counts", "R", "C"]
---*/
extern "C" __global__ void k(const int* x, int* counts, int R, int C){
    __shared__ int bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int begin = 0; begin < C; begin += 128) {
        const int c = begin + threadIdx.x;
        const unsigned taking = __ballot_sync(0xffffffffu, c < C);
        if (c < C) {
            const int bin = x[size_t(blockIdx.x) * C + c] & 63;
            const unsigned equal = __match_any_sync(taking, bin);
            if ((threadIdx.x & 31) == __ffs(equal) - 1) atomicAdd(&bins[bin], __popc(equal));
        }
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        /*@out*/ counts[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
    }
}
