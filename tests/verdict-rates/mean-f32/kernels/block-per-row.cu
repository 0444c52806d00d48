/*---
[[launch]]
kernel = "mean_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "mean", "C"]

[tunables.THREADS]
value = 128
choices = [64, 128, 256]
---*/
// One block sums one row; its threads add their sums in a tree in shared memory.
extern "C" __global__ void mean_rows(const float* x, float* mean, int C) {
    __shared__ float partial[THREADS];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        sum += x[size_t(row) * C + column];
    }
    partial[thread] = sum;
    __syncthreads();
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (thread < distance) {
            partial[thread] += partial[thread + distance];
        }
        __syncthreads();
    }
    if (thread == 0) {
        /*@out*/ mean[row] = partial[0] / C;
    }
}
