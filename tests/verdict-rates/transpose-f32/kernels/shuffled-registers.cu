/*---
[[launch]]
kernel = "k"
grid = ["cdiv(N, 8)", "cdiv(M, 32)"]
block = [32]
args = ["x", "y", "M", "N"]
---*/
extern "C" __global__ void k(const float* x, float* y, int M, int N) {
    // Eight columns of 32 rows: each lane loads a row of eight, then lanes exchange registers in three steps.
    const int m = blockIdx.y * 32 + threadIdx.x, n = blockIdx.x * 8;
    float v[8];
    for (int i = 0; i < 8; ++i) v[i] = m < M && n + i < N ? x[size_t(m) * N + n + i] : 0.0f;
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
        const bool up = threadIdx.x & step;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i & step) continue;
            const float sent = up ? v[i] : v[i | step];
            const float got = __shfl_xor_sync(0xffffffffu, sent, step);
            if (up) v[i] = got; else v[i | step] = got;
        }
    }
    const int group = threadIdx.x / 8 * 8, column = n + threadIdx.x % 8;
    for (int i = 0; i < 8; ++i) {
        const int row = blockIdx.y * 32 + group + i;
        if (row < M && column < N) /*@out*/ y[size_t(column) * M + row] = v[i];
    }
}
