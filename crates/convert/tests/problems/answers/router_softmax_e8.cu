/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * experts, 64)"]
block = [64]
args = ["x", "gate", "weights", "tokens", "hidden", "experts"]
---*/
extern "C" __global__ void answer(const float* x, const float* gate, double* weights, int tokens, int hidden, int experts) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * experts) return;
    double logits[8], largest = -INFINITY, sum = 0.0;
    for (int expert = 0; expert < experts; ++expert) {
        logits[expert] = 0.0;
        for (int k = hidden - 1; k >= 0; --k) logits[expert] += double(x[at / experts * hidden + k]) * gate[expert * hidden + k];
        largest = fmax(largest, logits[expert]);
    }
    for (int expert = 0; expert < experts; ++expert) sum += exp(logits[expert] - largest);
    weights[at] = exp(logits[at % experts] - largest) / sum;
}
