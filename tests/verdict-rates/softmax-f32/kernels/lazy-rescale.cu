/*---
[[launch]]
kernel = "k"
grid = ["cdiv(R, 4)"]
block = [128]
args = ["x", "y", "R", "C"]
---*/
extern "C" __global__ void k(const float* x, float* y, int R, int C){
    // The running sum is rescaled only where the maximum has grown by more than 8.
    const int r = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (r >= R) return;
    const float* row = x + size_t(r) * C;
    float base = -INFINITY, sum = 0.0f;
    for (int begin = 0; begin < C; begin += 32) {
        const float value = begin + lane < C ? row[begin + lane] : -INFINITY;
        float top = value;
        for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
        if (!(top <= base + 8.0f)) {
            sum *= base == -INFINITY ? 0.0f : __expf(base - top);
            base = top;
        }
        float part = __expf(value - base);
        for (int d = 16; d > 0; d /= 2) part += __shfl_xor_sync(0xffffffffu, part, d);
        sum += part;
    }
    for (int c = lane; c < C; c += 32) /*@out*/ y[size_t(r) * C + c] = __fdividef(__expf(row[c] - base), sum);
}
