/*---
[[launch]]
kernel = "gate"
grid = ["cdiv(T, 128)"]
block = [128]
args = ["logits", "weights", "T", "E"]
---*/
// Generation 0: one thread per token. Neighbouring threads read and write E elements apart.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(128)
    gate(const __half* __restrict__ logits, __half* __restrict__ weights, int T, int E) {
    const int token = blockIdx.x * 128 + threadIdx.x;
    if (token >= T) return;
    const __half* from = logits + size_t(token) * E;
    __half* to = weights + size_t(token) * E;

    int best = 0;
    int second = 1;
    if (__half2float(from[1]) > __half2float(from[0])) {
        best = 1;
        second = 0;
    }
    for (int e = 2; e < E; ++e) {
        const float logit = __half2float(from[e]);
        if (logit > __half2float(from[best])) {
            second = best;
            best = e;
        } else if (logit > __half2float(from[second])) {
            second = e;
        }
    }
    const float smaller = expf(__half2float(from[second]) - __half2float(from[best]));
    for (int e = 0; e < E; ++e) to[e] = __float2half_rn(0.0f);
    to[best] = __float2half_rn(1.0f / (1.0f + smaller));
    to[second] = __float2half_rn(smaller / (1.0f + smaller));
}
