/*---
[expect]
verdict = "data_race"

[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["min(cdiv(N, 256), SM_COUNT)"]
block = [256]
args = ["x", "counts", "N"]
---*/
// Wrong: two threads that meet the same byte read the same count, and one of the two is lost.
extern "C" __global__ void __launch_bounds__(256)
    histogram(const unsigned char* __restrict__ x, int* __restrict__ counts, int N) {
    __shared__ int found[256];
    found[threadIdx.x] = 0;
    __syncthreads();
    for (int n = blockIdx.x * 256 + threadIdx.x; n < N; n += gridDim.x * 256) {
        found[x[n]] += 1;  // <- finding
    }
    __syncthreads();
    if (found[threadIdx.x] != 0) atomicAdd(counts + threadIdx.x, found[threadIdx.x]);
}
