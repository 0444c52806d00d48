/*---
[[launch]]
kernel = "check_gate"
grid = ["T"]
block = [64]
args = ["logits", "weights", "weights_scale", "E"]

[workspace.weights_scale]
dtype = "f64"
shape = ["T", "E"]
---*/
// The second opinion: a thread per expert counts how many experts come before its own. The two that fewer
// than two come before share the weight; the others get none.
#include <cuda_fp16.h>

extern "C" __global__ void check_gate(const __half* logits, double* weights, double* weights_scale,
                                      int E) {
    __shared__ double chosen[2];
    const __half* from = logits + size_t(blockIdx.x) * E;
    const auto rank = [&](int e) {
        const float own = __half2float(from[e]);
        int before = 0;
        for (int other = 0; other < E; ++other) {
            const float logit = __half2float(from[other]);
            before += logit > own || (logit == own && other < e);
        }
        return before;
    };
    for (int e = threadIdx.x; e < E; e += 64) {
        const int place = rank(e);
        if (place < 2) chosen[place] = __half2float(from[e]);
    }
    __syncthreads();
    const double mass = exp(chosen[0] - chosen[0]) + exp(chosen[1] - chosen[0]);
    for (int e = threadIdx.x; e < E; e += 64) {
        const double weight = rank(e) < 2 ? exp(double(__half2float(from[e])) - chosen[0]) / mass : 0.0;
        weights[size_t(blockIdx.x) * E + e] = weight;
        weights_scale[size_t(blockIdx.x) * E + e] =
            fmax(weight * (1.0 + chosen[0] - chosen[1]), 0x1p-14);
    }
}
