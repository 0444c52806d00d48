/*---
[[launch]]
kernel = "scan_blocks"
grid = ["cdiv(N, 512)"]
block = [512]
args = ["x", "y", "sums", "N"]

[[launch]]
kernel = "scan_sums"
grid = [1]
block = [512]
args = ["sums", "N"]

[[launch]]
kernel = "add_sums"
grid = ["cdiv(N, 512)"]
block = [512]
args = ["y", "sums", "N"]

[workspace.sums]
dtype = "f32"
shape = ["cdiv(N, 512)"]
---*/
// Generation 0: prefix sums of blocks of 512, prefix sums of the blocks' sums, and a third walk that adds
// them. Within a block every level of the scan is a barrier and a pass through shared memory.
constexpr int THREADS = 512;

// The inclusive prefix sum of one value of every thread of the block.
__device__ float scan_block(float value, float* shared) {
    shared[threadIdx.x] = value;
    for (int distance = 1; distance < THREADS; distance *= 2) {
        __syncthreads();
        const float before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0.0f;
        __syncthreads();
        shared[threadIdx.x] += before;
    }
    __syncthreads();
    return shared[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_blocks(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ sums, int N) {
    __shared__ float shared[THREADS];
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const float sum = scan_block(n < N ? x[n] : 0.0f, shared);
    if (n < N) y[n] = sum;
    if (threadIdx.x == THREADS - 1) sums[blockIdx.x] = sum;
}

// Replaces the sums of the blocks by their inclusive prefix sums, THREADS at a time.
extern "C" __global__ void __launch_bounds__(THREADS) scan_sums(float* sums, int N) {
    __shared__ float shared[THREADS];
    const int blocks = (N + THREADS - 1) / THREADS;
    float carried = 0.0f;
    for (int first = 0; first < blocks; first += THREADS) {
        const int b = first + threadIdx.x;
        const float sum = scan_block(b < blocks ? sums[b] : 0.0f, shared);
        if (b < blocks) sums[b] = carried + sum;
        carried += shared[THREADS - 1];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    add_sums(float* __restrict__ y, const float* __restrict__ sums, int N) {
    const int n = blockIdx.x * THREADS + threadIdx.x;
    if (n < N && blockIdx.x > 0) y[n] += sums[blockIdx.x - 1];
}
