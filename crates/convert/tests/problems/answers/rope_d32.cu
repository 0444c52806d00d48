/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(tokens * heads * 2 * half, 64)"]
block = [64]
args = ["q", "angles_cos", "angles_sin", "out", "tokens", "heads", "half"]
---*/
extern "C" __global__ void answer(const float* q, const float* cosines, const float* sines, double* out, int tokens, int heads, int half) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * heads * 2 * half) return;
    const int inner = at % (2 * half), place = at / (2 * half) / heads * half + inner % half;
    const double other = inner < half ? -double(q[at + half]) : double(q[at - half]);
    out[at] = double(q[at]) * cosines[place] + other * sines[place];
}
