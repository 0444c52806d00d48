/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "reduce"
grid = ["R"]
block = [256]
args = ["x", "y", "C"]
---*/
// Wrong: the last levels of the tree run in one warp without a barrier, as kernels did when the lanes
// of a warp moved in step.
extern "C" __global__ void __launch_bounds__(256)
    reduce(const float* __restrict__ x, float* __restrict__ y, int C) {
    __shared__ float sums[256];
    const float* row = x + size_t(blockIdx.x) * C;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 256) sum += row[c];
    sums[threadIdx.x] = sum;
    for (int half = 128; half >= 32; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x >= 32) return;
    for (int half = 16; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];  // <- finding
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
