/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "topk"
grid = ["R"]
block = [32]
args = ["x", "values", "columns", "C"]
---*/
// Wrong: the bits of a float are compared as a signed integer, which orders negative values the wrong way
// round. Where eight elements are positive nothing shows.
constexpr int K = 8;

extern "C" __global__ void __launch_bounds__(32)
    topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns, int C) {
    const float* from = x + size_t(blockIdx.x) * C;
    int last = 0x7fffffff;
    int last_column = -1;
    for (int k = 0; k < K; ++k) {
        int best = 0x80000000;
        int column = C;
        for (int c = threadIdx.x; c < C; c += 32) {
            const int bits = __float_as_int(from[c] + 0.0f);
            const bool left = bits < last || (bits == last && c > last_column);
            if (left && (bits > best || column == C)) {
                best = bits;
                column = c;
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            const int other = __shfl_xor_sync(0xffffffffu, best, step);
            const int other_column = __shfl_xor_sync(0xffffffffu, column, step);
            if (other_column < C && (column == C || other > best || (other == best && other_column < column))) {
                best = other;
                column = other_column;
            }
        }
        last = best;
        last_column = column;
        if (threadIdx.x == 0) {
            values[size_t(blockIdx.x) * K + k] = __int_as_float(best);
            columns[size_t(blockIdx.x) * K + k] = column;
        }
    }
}
