/*---
[[launch]]
kernel = "softmax_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "y", "C"]

[tunables.THREADS]
value = 64
choices = [64, 128]
---*/
// One block computes one row in two passes: the mass is rescaled whenever the maximum grows.
extern "C" __global__ void softmax_rows(const float* x, float* y, int C) {
    __shared__ float tops[THREADS / 32];
    __shared__ float sums[THREADS / 32];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    float top = -INFINITY;
    float sum = 0.0f;
    for (int column = thread; column < C; column += THREADS) {
        const float value = x[size_t(row) * C + column];
        const float higher = fmaxf(top, value);
        const float kept = top == -INFINITY ? 0.0f : expf(top - higher);
        const float added = value == -INFINITY ? 0.0f : expf(value - higher);
        sum = sum * /*@rescale*/ kept + added;
        top = higher;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other_top = __shfl_xor_sync(0xffffffffu, top, distance);
        const float other_sum = __shfl_xor_sync(0xffffffffu, sum, distance);
        const float higher = fmaxf(top, other_top);
        const float kept = top == -INFINITY ? 0.0f : expf(top - higher);
        const float scaled = other_top == -INFINITY ? 0.0f : expf(other_top - higher);
        sum = sum * /*@rescale*/ kept + other_sum * /*@rescale*/ scaled;
        top = higher;
    }
    if (thread % 32 == 0) {
        tops[thread / 32] = top;
        sums[thread / 32] = sum;
    }
    __syncthreads();
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        top = fmaxf(top, tops[warp]);
    }
    float mass = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        const float scaled = tops[warp] == -INFINITY ? 0.0f : expf(tops[warp] - top);
        mass += sums[warp] * /*@rescale*/ scaled;
    }
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        const float value = x[size_t(row) * C + column];
        /*@out*/ y[size_t(row) * C + column] = expf(value - top) / mass;
    }
}
