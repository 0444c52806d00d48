/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "reduce"
grid = ["R"]
block = [256]
args = ["x", "y", "C"]
---*/
// Wrong: only whole strides of the block are added. A row of a multiple of 256 hides it, and so does
// a loose tolerance on a long row.
extern "C" __global__ void __launch_bounds__(256)
    reduce(const float* __restrict__ x, float* __restrict__ y, int C) {
    __shared__ float sums[256];
    const float* row = x + size_t(blockIdx.x) * C;
    float sum = 0.0f;
    for (int first = 0; first + 256 <= C; first += 256) sum += row[first + threadIdx.x];
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
