/*---
[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.STAGES]
value = 2
choices = [2, 3]
---*/
// Asynchronous copies bring the next tiles while the current ones are multiplied.
#include <cuda_pipeline.h>
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[STAGES][16][16];
    __shared__ float right[STAGES][16][16];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int m = blockIdx.y * 16 + y;
    const int n = blockIdx.x * 16 + x;
    for (int stage = 0; stage < STAGES - 1; stage += 1) {
        const int k = stage * 16;
        if (m < M && k + x < K) {
            __pipeline_memcpy_async(&left[stage][y][x], &a[size_t(m) * K + k + x], 4);
        }
        if (k + y < K && n < N) {
            __pipeline_memcpy_async(&right[stage][y][x], &b[size_t(k + y) * N + n], 4);
        }
        __pipeline_commit();
    }
    /*@wide*/ float sum = 0.0f;
    const int steps = (K + 15) / 16;
    for (int step = 0; step < steps; step += 1) {
        const int ahead = (step + STAGES - 1) * 16;
        const int slot = (step + STAGES - 1) % STAGES;
        if (m < M && ahead + x < K) {
            __pipeline_memcpy_async(&left[slot][y][x], &a[size_t(m) * K + ahead + x], 4);
        }
        if (ahead + y < K && n < N) {
            __pipeline_memcpy_async(&right[slot][y][x], &b[size_t(ahead + y) * N + n], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        const int stage = step % STAGES;
        const int depth = min(16, K - step * 16);
        if (m < M && n < N) {
            for (int k = 0; k < depth; k += 1) {
                sum += left[stage][y][k] * right[stage][k][x];
            }
        }
        __syncthreads();
    }
    if (m < M && n < N) {
        /*@out*/ c[size_t(m) * N + n] = sum;
    }
}
