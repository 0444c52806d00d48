/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "scan"
grid = ["cdiv(N, 512)"]
block = [512]
args = ["x", "y", "N"]
---*/
// Wrong: each block begins at zero. Vectors of one block hide it.
extern "C" __global__ void __launch_bounds__(512)
    scan(const float* __restrict__ x, float* __restrict__ y, int N) {
    __shared__ float shared[512];
    const int n = blockIdx.x * 512 + threadIdx.x;
    shared[threadIdx.x] = n < N ? x[n] : 0.0f;
    for (int distance = 1; distance < 512; distance *= 2) {
        __syncthreads();
        const float before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0.0f;
        __syncthreads();
        shared[threadIdx.x] += before;
    }
    if (n < N) y[n] = shared[threadIdx.x];
}
