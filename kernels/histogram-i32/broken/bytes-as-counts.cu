/*---
[expect]
verdict = "incorrect_output"

[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["min(cdiv(N, 1024), SM_COUNT)"]
block = [256]
args = ["x", "counts", "N"]
---*/
// Wrong: four counts of eight bits share a word of shared memory. They overflow into each other where
// a block finds a value more than 255 times.
extern "C" __global__ void __launch_bounds__(256)
    histogram(const unsigned char* __restrict__ x, int* __restrict__ counts, int N) {
    __shared__ unsigned found[64];
    if (threadIdx.x < 64) found[threadIdx.x] = 0;
    __syncthreads();
    for (int n = blockIdx.x * 256 + threadIdx.x; n < N; n += gridDim.x * 256) {
        atomicAdd(found + x[n] / 4, 1u << (8 * (x[n] % 4)));
    }
    __syncthreads();
    const int count = (found[threadIdx.x / 4] >> (8 * (threadIdx.x % 4))) & 255;
    atomicAdd(counts + threadIdx.x, count);
}
