/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * outer * length, 64)"]
block = [64]
args = ["x", "conv_weight", "y", "batch_size", "inner", "outer", "length"]
---*/
extern "C" __global__ void answer(const float* x, const float* weight, double* y, int batch_size, int inner, int outer, int length) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * outer * length) return;
    const int place = at % length, channel = at / length % outer, item = at / length / outer;
    double sum = 0.0;
    for (int c = inner - 1; c >= 0; --c)
        for (int k = 0; k < 3; ++k) {
            const int from = place + 2 * k - 2;
            if (from >= 0 && from < length) sum += double(x[(item * inner + c) * length + from]) * weight[(channel * inner + c) * 3 + k];
        }
    y[at] = sum;
}
