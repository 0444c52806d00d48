/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "attention"
grid = ["cdiv(S, 64)", "H", "B"]
block = [64]
args = ["q", "k", "v", "o", "S", "scale"]
---*/
// Wrong: the scores are not divided by sqrt(D), so the softmax is far too sharp. With a single key it
// cannot show; with two or more it does.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = 64;

extern "C" __global__ void attention(const __half* __restrict__ q, const __half* __restrict__ k,
                                     const __half* __restrict__ v, __half* __restrict__ o, int S,
                                     float scale) {
    const int row = blockIdx.x * ROWS + threadIdx.x;
    if (row >= S) return;
    const size_t head = size_t(blockIdx.z * gridDim.y + blockIdx.y) * S * D;
    const __half* keys = k + head;
    const __half* values = v + head;

    float query[D];
    float total[D];
    for (int d = 0; d < D; ++d) {
        query[d] = __half2float(q[head + size_t(row) * D + d]);
        total[d] = 0.0f;
    }

    // The softmax runs along with the keys: `total` and `mass` are kept relative to the largest
    // score so far and are rescaled when a larger one comes.
    float largest = -INFINITY;
    float mass = 0.0f;
    for (int key = 0; key < S; ++key, keys += D, values += D) {
        float score = 0.0f;
        for (int d = 0; d < D; ++d) score += query[d] * __half2float(keys[d]);
        const float grown = fmaxf(largest, score);
        const float keep = __expf(largest - grown);
        const float weight = __expf(score - grown);
        mass = mass * keep + weight;
        for (int d = 0; d < D; ++d) total[d] = total[d] * keep + weight * __half2float(values[d]);
        largest = grown;
    }

    const float inverse = 1.0f / mass;
    for (int d = 0; d < D; ++d) {
        o[head + size_t(row) * D + d] = __float2half_rn(total[d] * inverse);
    }
}
