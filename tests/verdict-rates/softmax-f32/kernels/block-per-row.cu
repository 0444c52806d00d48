/*---
[[launch]]
kernel = "softmax_rows"
grid = ["R"]
block = ["THREADS"]
args = ["x", "y", "C"]

[tunables.THREADS]
value = 128
choices = [64, 128, 256]
---*/
// One block computes one row: maximum and mass are joined in trees in shared memory.
extern "C" __global__ void softmax_rows(const float* x, float* y, int C) {
    __shared__ float shared[THREADS];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    float top = -INFINITY;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        top = fmaxf(top, x[size_t(row) * C + column]);
    }
    shared[thread] = top;
    __syncthreads();
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (thread < distance) {
            shared[thread] = fmaxf(shared[thread], shared[thread + distance]);
        }
        __syncthreads();
    }
    top = shared[0];
    __syncthreads();
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        sum += expf(x[size_t(row) * C + column] - top);
    }
    shared[thread] = sum;
    __syncthreads();
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (thread < distance) {
            shared[thread] += shared[thread + distance];
        }
        __syncthreads();
    }
    const float mass = shared[0];
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        /*@out*/ y[size_t(row) * C + column] = expf(x[size_t(row) * C + column] - top) / mass;
    }
}
