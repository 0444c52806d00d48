/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gate"
grid = ["cdiv(T, 128)"]
block = [128]
args = ["logits", "weights", "T", "E"]
---*/
// Wrong: the two weights are parts of the softmax over all experts and are not scaled to a sum of one.
#include <cuda_fp16.h>

extern "C" __global__ void gate(const __half* __restrict__ logits, __half* __restrict__ weights, int T,
                                int E) {
    const int token = blockIdx.x * 128 + threadIdx.x;
    if (token >= T) return;
    const __half* from = logits + size_t(token) * E;
    int best = 0;
    int second = -1;
    for (int e = 1; e < E; ++e) {
        const float logit = __half2float(from[e]);
        if (logit > __half2float(from[best])) {
            second = best;
            best = e;
        } else if (second < 0 || logit > __half2float(from[second])) {
            second = e;
        }
    }
    float mass = 0.0f;
    for (int e = 0; e < E; ++e) mass += expf(__half2float(from[e]) - __half2float(from[best]));
    for (int e = 0; e < E; ++e) {
        const float weight =
            e == best || e == second ? expf(__half2float(from[e]) - __half2float(from[best])) / mass : 0.0f;
        weights[size_t(token) * E + e] = __float2half_rn(weight);
    }
}
