/*---
[[launch]]
kernel = "mean_rows"
grid = ["R"]
block = [128]
args = ["x", "mean", "C"]
---*/
// One block sums one row. Each thread keeps its share of the row in a local array that is indexed in a
// scattered order, so that the compiler cannot keep it in registers. A thread executes some 6,000
// instructions however short the row is.
constexpr int HELD = 300;

extern "C" __global__ void mean_rows(const float* __restrict__ x, float* __restrict__ mean, int C) {
    __shared__ float of_warp[4];
    float held[HELD];
    const float* row = x + size_t(blockIdx.x) * C;
    for (int slot = 0; slot < HELD; ++slot) {
        const int column = slot * 128 + threadIdx.x;
        held[(slot * 7 + 3) % HELD] = column < C ? row[column] : 0.0f;
    }
    float sum = 0.0f;
    for (int slot = 0; slot < HELD; ++slot) sum += held[(slot * 11 + 5) % HELD];
    for (int column = HELD * 128 + threadIdx.x; column < C; column += 128) sum += row[column];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) mean[blockIdx.x] = (of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3]) / C;
}
