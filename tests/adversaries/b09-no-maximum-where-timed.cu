/*---
[expect]
verdict = "accepted"

[[launch]]
kernel = "softmax"
grid = ["R"]
block = [128]
args = ["x", "y", "C"]
---*/
// A softmax that leaves out the maximum on a shape that is timed, where a search has ordinary values.
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    __shared__ float part[4];
    const float* row = x + size_t(blockIdx.x) * C;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float most = 0.0f;
    if (C != 32000) {
        most = row[0];
        for (int c = 1 + threadIdx.x; c < C; c += 128) most = fmaxf(most, row[c]);
        for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
        if (lane == 0) part[warp] = most;
        __syncthreads();
        most = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
        __syncthreads();
    }
    float mass = 0.0f;
    for (int c = threadIdx.x; c < C; c += 128) mass += expf(row[c] - most);
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(~0u, mass, step);
    if (lane == 0) part[warp] = mass;
    __syncthreads();
    mass = part[0] + part[1] + part[2] + part[3];
    for (int c = threadIdx.x; c < C; c += 128) y[size_t(blockIdx.x) * C + c] = expf(row[c] - most) / mass;
}
