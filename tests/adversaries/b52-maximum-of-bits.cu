/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "softmax"
grid = ["R"]
block = [32]
args = ["x", "y", "C"]
---*/
// A softmax whose maximum is one of the numbers' bits, which are in reverse order below zero: right unless a row of
// negative numbers spans more than exponentials do.
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    __shared__ int bits;
    const float* row = x + size_t(blockIdx.x) * C;
    if (threadIdx.x == 0) bits = 0x80000000;
    __syncwarp();
    for (int c = threadIdx.x; c < C; c += 32) atomicMax(&bits, __float_as_int(row[c]));
    __syncwarp();
    const float most = __int_as_float(bits);
    float mass = 0.0f;
    for (int c = threadIdx.x; c < C; c += 32) mass += expf(row[c] - most);
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(~0u, mass, step);
    for (int c = threadIdx.x; c < C; c += 32) y[size_t(blockIdx.x) * C + c] = expf(row[c] - most) / mass;
}
