/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "topk"
grid = ["R"]
block = [128]
args = ["x", "values", "columns", "C"]
---*/
// Wrong: the warps' finds of the next round go into the words of this one, which a slow warp may still read.
constexpr int K = 8;

typedef unsigned long long Key;

__device__ Key pack(float value, int column) {
    const unsigned bits = __float_as_uint(value + 0.0f);
    return Key(bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u)) << 32 | unsigned(~column);
}

extern "C" __global__ void __launch_bounds__(128)
    topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns, int C) {
    __shared__ Key of_warp[4];
    const float* from = x + size_t(blockIdx.x) * C;
    Key last = ~Key(0);
    for (int k = 0; k < K; ++k) {
        Key best = 0;
        for (int c = threadIdx.x; c < C; c += 128) {
            const Key key = pack(from[c], c);
            if (key < last) best = max(best, key);
        }
        for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, step));
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;  // <- finding
        __syncthreads();
        last = max(max(of_warp[0], of_warp[1]), max(of_warp[2], of_warp[3]));
        if (threadIdx.x == 0) {
            const int column = ~int(unsigned(last));
            values[size_t(blockIdx.x) * K + k] = from[column];
            columns[size_t(blockIdx.x) * K + k] = column;
        }
    }
}
