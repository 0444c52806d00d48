/*---
[[launch]]
kernel = "mean_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "mean", "C"]

[tunables.THREADS]
value = 64
choices = [64, 128]
---*/
// One block sums one row from tiles that asynchronous copies bring, one tile ahead.
#include <cuda_pipeline.h>
extern "C" __global__ void mean_rows(const float* x, float* mean, int C) {
    __shared__ float tile[2][THREADS];
    __shared__ float partial[THREADS / 32];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    const float* values = x + size_t(row) * C;
    if (thread < C) {
        __pipeline_memcpy_async(&tile[0][thread], &values[thread], 4);
    }
    __pipeline_commit();
    /*@wide*/ float sum = 0.0f;
    int stage = 0;
    for (int begin = 0; begin < C; begin += THREADS) {
        const int next = begin + THREADS + thread;
        if (next < C) {
            __pipeline_memcpy_async(&tile[stage ^ 1][thread], &values[next], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const int other = thread ^ 1;
        if (begin + other < C) {
            sum += tile[stage][other];
        }
        __syncthreads();
        stage ^= 1;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (thread % 32 == 0) {
        partial[thread / 32] = sum;
    }
    __syncthreads();
    if (thread == 0) {
        float total = 0.0f;
        for (int warp = 0; warp < THREADS / 32; warp += 1) {
            total += partial[warp];
        }
        /*@out*/ mean[row] = total / C;
    }
}
