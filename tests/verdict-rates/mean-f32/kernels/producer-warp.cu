/*---
[[launch]]
kernel = "mean_rows"
grid = ["R"]
block = [64]
args = ["x", "mean", "C"]

[tunables.STAGES]
value = 2
choices = [2, 3]
---*/
// One warp brings tiles of a row to shared memory, the other adds them up; named barriers hand the tiles over.
__device__ void announce(int barrier) {
    __threadfence_block();
    asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory");
}
__device__ void wait_for(int barrier) {
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
}
extern "C" __global__ void mean_rows(const float* x, float* mean, int C) {
    __shared__ float tile[STAGES][32];
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x;
    const int steps = (C + 31) / 32;
    if (threadIdx.x < 32) {
        for (int step = 0; step < steps; step += 1) {
            const int stage = step % STAGES;
            const int column = step * 32 + lane;
            if (step >= STAGES) {
                wait_for(1 + STAGES + stage);
            }
            tile[stage][lane] = column < C ? x[size_t(row) * C + column] : 0.0f;
            announce(1 + stage);
        }
    } else {
        float sum = 0.0f;
        for (int step = 0; step < steps; step += 1) {
            const int stage = step % STAGES;
            wait_for(1 + stage);
            sum += tile[stage][31 - lane];
            if (step + STAGES < steps) {
                announce(1 + STAGES + stage);
            }
        }
        for (int distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (lane == 0) {
            /*@out*/ mean[row] = sum / C;
        }
    }
}
