/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "scan"
grid = [1]
block = [512]
args = ["x", "y", "N"]
---*/
// Wrong: a level reads its neighbour's word and writes its own behind a single barrier, so that a fast
// warp overwrites what a slow one has not read.
extern "C" __global__ void __launch_bounds__(512)
    scan(const float* __restrict__ x, float* __restrict__ y, int N) {
    __shared__ float shared[512];
    float carried = 0.0f;
    for (int first = 0; first < N; first += 512) {
        const int n = first + threadIdx.x;
        __syncthreads();
        shared[threadIdx.x] = n < N ? x[n] : 0.0f;
        for (int distance = 1; distance < 512; distance *= 2) {
            __syncthreads();
            const float before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0.0f;
            shared[threadIdx.x] += before;
        }
        __syncthreads();
        if (n < N) y[n] = carried + shared[threadIdx.x];
        carried += shared[511];
    }
}
