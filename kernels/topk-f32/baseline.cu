/*---
[[launch]]
kernel = "topk"
grid = ["R"]
block = [256]
args = ["x", "values", "columns", "C"]
---*/
// Generation 0: a block per row finds the largest element eight times. Every walk over the row leaves out
// what comes before or is the last element found, and a tree in shared memory joins the threads' finds.
constexpr int K = 8;
constexpr int THREADS = 256;

__device__ bool comes_before(float a, int at, float b, int bt) { return a > b || (a == b && at < bt); }

extern "C" __global__ void __launch_bounds__(THREADS)
    topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns, int C) {
    __shared__ float value[THREADS];
    __shared__ int column[THREADS];
    const float* from = x + size_t(blockIdx.x) * C;
    const int thread = threadIdx.x;

    float last = INFINITY;
    int last_column = -1;
    for (int k = 0; k < K; ++k) {
        float best = -INFINITY;
        int best_column = C;
        for (int c = thread; c < C; c += THREADS) {
            const float element = from[c];
            if (comes_before(last, last_column, element, c) && comes_before(element, c, best, best_column)) {
                best = element;
                best_column = c;
            }
        }
        value[thread] = best;
        column[thread] = best_column;
        for (int half = THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (thread < half &&
                comes_before(value[thread + half], column[thread + half], value[thread], column[thread])) {
                value[thread] = value[thread + half];
                column[thread] = column[thread + half];
            }
        }
        __syncthreads();
        last = value[0];
        last_column = column[0];
        if (thread == 0) {
            values[size_t(blockIdx.x) * K + k] = last;
            columns[size_t(blockIdx.x) * K + k] = last_column;
        }
        __syncthreads();  // the first place may still be read
    }
}
