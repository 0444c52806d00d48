/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * heads * 2 * half, 64)"]
block = [64]
args = ["query", "cosines", "sines", "y", "tokens", "heads", "half"]
---*/
extern "C" __global__ void answer(const float* query, const float* cosines, const float* sines, double* y, int tokens, int heads, int half) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * heads * 2 * half) return;
    const int width = 2 * half, inner = at % width, place = at / width / heads * width + inner;
    const double other = inner < half ? -double(query[at + half]) : double(query[at - half]);
    y[at] = double(query[at]) * cosines[place] + other * sines[place];
}
