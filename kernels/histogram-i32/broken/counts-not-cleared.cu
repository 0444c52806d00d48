/*---
[expect]
verdict = "incorrect_output"

[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["min(cdiv(N, 256), SM_COUNT)"]
block = [128]
args = ["x", "counts", "N"]
---*/
// Wrong: 128 threads clear 128 of the 256 counts in shared memory.
extern "C" __global__ void __launch_bounds__(128)
    histogram(const unsigned char* __restrict__ x, int* __restrict__ counts, int N) {
    __shared__ int found[256];
    found[threadIdx.x] = 0;
    __syncthreads();
    for (int n = blockIdx.x * 128 + threadIdx.x; n < N; n += gridDim.x * 128) atomicAdd(found + x[n], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += 128) atomicAdd(counts + b, found[b]);
}
