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
// One block computes one row; its warps meet at a barrier object in shared memory.
#include <cuda/barrier>
extern "C" __global__ void softmax_rows(const float* x, float* y, int C) {
    __shared__ cuda::barrier<cuda::thread_scope_block> meeting;
    __shared__ float tops[THREADS / 32];
    __shared__ float sums[THREADS / 32];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    if (thread == 0) {
        init(&meeting, THREADS);
    }
    __syncthreads();
    float top = -INFINITY;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        top = fmaxf(top, x[size_t(row) * C + column]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, distance));
    }
    if (thread % 32 == 0) {
        tops[thread / 32] = top;
    }
    meeting.arrive_and_wait();
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        top = fmaxf(top, tops[warp]);
    }
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        sum += expf(x[size_t(row) * C + column] - top);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (thread % 32 == 0) {
        sums[thread / 32] = sum;
    }
    meeting.wait(meeting.arrive());
    float mass = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        mass += sums[warp];
    }
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        /*@out*/ y[size_t(row) * C + column] = expf(x[size_t(row) * C + column] - top) / mass;
    }
}
