/*---
[[launch]]
kernel = "reference_topk"
grid = ["R"]
block = [256]
args = ["x", "values", "columns", "C"]
---*/
// The right answer: eight times the largest element that comes after the last one found, where an element
// comes before another if it is larger, or equal and in a lower column.
constexpr int K = 8;
constexpr int THREADS = 256;

extern "C" __global__ void reference_topk(const float* x, double* values, double* columns, int C) {
    __shared__ int best_of[THREADS];
    const float* from = x + size_t(blockIdx.x) * C;
    const auto before = [&](int a, int b) { return from[a] > from[b] || (from[a] == from[b] && a < b); };
    int last = -1;
    for (int k = 0; k < K; ++k) {
        int best = -1;
        for (int c = threadIdx.x; c < C; c += THREADS) {
            if (last >= 0 && !before(last, c)) continue;
            if (best < 0 || before(c, best)) best = c;
        }
        best_of[threadIdx.x] = best;
        __syncthreads();
        best = -1;
        for (int t = 0; t < THREADS; ++t) {
            const int other = best_of[t];
            if (other >= 0 && (best < 0 || before(other, best))) best = other;
        }
        __syncthreads();
        last = best;
        if (threadIdx.x == 0) {
            values[size_t(blockIdx.x) * K + k] = from[best];
            columns[size_t(blockIdx.x) * K + k] = best;
        }
    }
}
