/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * outer, 64)"]
block = [64]
args = ["x", "gate", "up", "y", "tokens", "inner", "outer"]
---*/
extern "C" __global__ void answer(const float* x, const float* gate, const float* up, double* y, int tokens, int inner, int outer) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * outer) return;
    double first = 0.0, second = 0.0;
    for (int k = inner - 1; k >= 0; --k) {
        first += double(x[at / outer * inner + k]) * gate[k * outer + at % outer];
        second += double(x[at / outer * inner + k]) * up[k * outer + at % outer];
    }
    y[at] = first / (1.0 + exp(-first)) * second;
}
