/*---
[[launch]]
kernel = "reference_gate"
grid = ["cdiv(T, 32)"]
block = [32]
args = ["logits", "weights", "weights_scale", "T", "E"]

[workspace.weights_scale]
dtype = "f64"
shape = ["T", "E"]
---*/
// The right answer in binary64: one thread walks over a token's logits and keeps the two largest, of
// equal ones the first. The rounding of their difference becomes a relative error of the exponential.
#include <cuda_fp16.h>

extern "C" __global__ void reference_gate(const __half* logits, double* weights, double* weights_scale,
                                          int T, int E) {
    const int token = blockIdx.x * 32 + threadIdx.x;
    if (token >= T) return;
    const size_t first = size_t(token) * E;
    int best = -1;
    int second = -1;
    for (int e = 0; e < E; ++e) {
        const float logit = __half2float(logits[first + e]);
        if (best < 0 || logit > __half2float(logits[first + best])) {
            second = best;
            best = e;
        } else if (second < 0 || logit > __half2float(logits[first + second])) {
            second = e;
        }
    }
    const double gap =
        double(__half2float(logits[first + best])) - double(__half2float(logits[first + second]));
    const double smaller = exp(-gap);
    for (int e = 0; e < E; ++e) {
        const double weight = (e == best ? 1.0 : e == second ? smaller : 0.0) / (1.0 + smaller);
        weights[first + e] = weight;
        // Below the smallest normal number of f16 the spacing no longer shrinks.
        weights_scale[first + e] = fmax(weight * (1.0 + gap), 0x1p-14);
    }
}
