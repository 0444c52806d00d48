/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "gate"
grid = ["cdiv(T, 128)"]
block = [128]
args = ["logits", "weights", "T", "E"]
---*/
// Wrong: only the two chosen experts are written, because the framework's allocator happened to return
// zeros.
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
    const float smaller = expf(__half2float(from[second]) - __half2float(from[best]));
    weights[size_t(token) * E + best] = __float2half_rn(1.0f / (1.0f + smaller));
    weights[size_t(token) * E + second] = __float2half_rn(smaller / (1.0f + smaller));
}
