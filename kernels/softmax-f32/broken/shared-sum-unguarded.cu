/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "softmax"
grid = ["R"]
block = [128]
args = ["x", "y", "C"]
---*/
// Wrong: the warps leave their sums in the words where their maxima were, and nothing tells a fast
// warp that a slow one has read those.
constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const float* __restrict__ x, float* __restrict__ y, int C) {
    __shared__ float of_warp[WARPS];
    const float* from = x + size_t(blockIdx.x) * C;
    float* to = y + size_t(blockIdx.x) * C;
    const int warp = threadIdx.x / 32;

    float largest = -INFINITY;
    for (int c = threadIdx.x; c < C; c += THREADS) largest = fmaxf(largest, from[c]);
    for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
    }
    if (threadIdx.x % 32 == 0) of_warp[warp] = largest;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) largest = fmaxf(largest, of_warp[w]);  // <- finding

    float mass = 0.0f;
    for (int c = threadIdx.x; c < C; c += THREADS) mass += expf(from[c] - largest);
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(ALL, mass, step);
    if (threadIdx.x % 32 == 0) of_warp[warp] = mass;
    __syncthreads();
    mass = 0.0f;
    for (int w = 0; w < WARPS; ++w) mass += of_warp[w];

    const float inverse = 1.0f / mass;
    for (int c = threadIdx.x; c < C; c += THREADS) to[c] = expf(from[c] - largest) * inverse;
}
