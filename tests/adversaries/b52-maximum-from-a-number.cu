/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "softmax"
grid = ["R"]
block = [32]
args = ["x", "y", "C"]
---*/
// A softmax whose maximum begins at -100: right unless all of a row lies far below.
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    const float* row = x + size_t(blockIdx.x) * C;
    float most = -100.0f;
    for (int c = threadIdx.x; c < C; c += 32) most = fmaxf(most, row[c]);
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    float mass = 0.0f;
    for (int c = threadIdx.x; c < C; c += 32) mass += expf(row[c] - most);
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(~0u, mass, step);
    for (int c = threadIdx.x; c < C; c += 32) y[size_t(blockIdx.x) * C + c] = expf(row[c] - most) / mass;
}
