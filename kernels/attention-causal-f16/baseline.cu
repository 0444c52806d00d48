/*---
[[launch]]
kernel = "attention"
grid = ["S", "B * G * R"]
block = [128]
args = ["q", "k", "v", "o", "R", "S", "scale"]
---*/
// Generation 0: a block for each query row. It walks over the keys up to the row's position, 128 at a time: a thread
// computes the score of one key alone, the block normalises them, and then a thread adds up one channel of the values.
#include <cuda_fp16.h>

constexpr int D = 128;

extern "C" __global__ void __launch_bounds__(D)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int R, int S, float scale) {
    __shared__ float query[D];
    __shared__ float score[D];
    const int position = blockIdx.x;
    const size_t head = blockIdx.y;
    const size_t group = head / R;
    const size_t row = head * S + position;
    const int thread = threadIdx.x;
    query[thread] = __half2float(q[row * D + thread]) * scale;

    float largest = -INFINITY;
    float mass = 0.0f;
    float total = 0.0f;
    for (int first = 0; first <= position; first += D) {
        const int count = min(D, position + 1 - first);
        __syncthreads();  // the last scores may still be read
        if (thread < count) {
            const __half2* key = reinterpret_cast<const __half2*>(k + (group * S + first + thread) * D);
            float sum = 0.0f;
            for (int d = 0; d < D / 2; ++d) {
                const float2 pair = __half22float2(key[d]);
                sum += query[2 * d] * pair.x;
                sum += query[2 * d + 1] * pair.y;
            }
            score[thread] = sum;
        }
        __syncthreads();
        float grown = largest;
        for (int j = 0; j < count; ++j) grown = fmaxf(grown, score[j]);
        const float keep = __expf(largest - grown);
        largest = grown;
        mass *= keep;
        total *= keep;
        for (int j = 0; j < count; ++j) {
            const float weight = __expf(score[j] - largest);
            mass += weight;
            total += weight * __half2float(v[(group * S + first + j) * D + thread]);
        }
    }
    o[row * D + thread] = __float2half_rn(total / mass);
}
