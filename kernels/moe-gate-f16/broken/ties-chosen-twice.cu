/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gate"
grid = ["cdiv(T, 128)"]
block = [128]
args = ["logits", "weights", "T", "E"]
---*/
// Wrong: every expert whose logit equals one of the two largest gets a weight. Right until two are equal.
#include <cuda_fp16.h>

extern "C" __global__ void gate(const __half* __restrict__ logits, __half* __restrict__ weights, int T,
                                int E) {
    const int token = blockIdx.x * 128 + threadIdx.x;
    if (token >= T) return;
    const __half* from = logits + size_t(token) * E;
    float best = -INFINITY;
    float second = -INFINITY;
    for (int e = 0; e < E; ++e) {
        const float logit = __half2float(from[e]);
        if (logit > best) {
            second = best;
            best = logit;
        } else if (logit > second) {
            second = logit;
        }
    }
    const float smaller = expf(second - best);
    for (int e = 0; e < E; ++e) {
        const float logit = __half2float(from[e]);
        const float weight = logit == best ? 1.0f : logit == second ? smaller : 0.0f;
        weights[size_t(token) * E + e] = __float2half_rn(weight / (1.0f + smaller));
    }
}
