/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "decode"
grid = ["R", "G", "B"]
block = [128]
args = ["q", "k", "v", "o", "S", "scale"]
---*/
// Wrong: when a larger score comes, the mass is brought to the new maximum but the weighted sum is not. A
// cache of one position hides it.
#include <cuda_fp16.h>

constexpr int D = 128;

extern "C" __global__ void __launch_bounds__(D)
    decode(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
           __half* __restrict__ o, int S, float scale) {
    __shared__ float query[D];
    __shared__ float score[D];
    const size_t group = size_t(blockIdx.z) * gridDim.y + blockIdx.y;
    const size_t row = group * gridDim.x + blockIdx.x;
    const int thread = threadIdx.x;
    query[thread] = __half2float(q[row * D + thread]) * scale;

    float largest = -INFINITY;
    float mass = 0.0f;
    float total = 0.0f;
    for (int first = 0; first < S; first += D) {
        const int count = min(D, S - first);
        __syncthreads();  // the last scores may still be read
        if (thread < count) {
            const __half* key = k + (group * S + first + thread) * D;
            float sum = 0.0f;
            for (int d = 0; d < D; ++d) sum += query[d] * __half2float(key[d]);
            score[thread] = sum;
        }
        __syncthreads();
        for (int j = 0; j < count; ++j) {
            const float grown = fmaxf(largest, score[j]);
            const float weight = __expf(score[j] - grown);
            mass = mass * __expf(largest - grown) + weight;
            total += weight * __half2float(v[(group * S + first + j) * D + thread]);
            largest = grown;
        }
    }
    o[row * D + thread] = __float2half_rn(total / mass);
}
