/*---
[[launch]]
kernel = "reference_topk"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["x", "values", "columns", "R", "C"]
---*/
// The right answer: eight times the largest element that comes after the last one found, where an element
// comes before another if it is larger, or equal and in a lower column. A warp takes one row: each lane
// looks through a strided share, and exchanges join the shares.
constexpr int K = 8;
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void reference_topk(const float* x, double* values, double* columns, int R, int C) {
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= R) return;
    const float* from = x + size_t(row) * C;
    const auto before = [&](int a, int b) { return from[a] > from[b] || (from[a] == from[b] && a < b); };
    int last = -1;
    for (int k = 0; k < K; ++k) {
        int best = -1;
        for (int c = threadIdx.x; c < C; c += 32) {
            if (last >= 0 && !before(last, c)) continue;
            if (best < 0 || before(c, best)) best = c;
        }
        for (int step = 16; step > 0; step /= 2) {
            const int other = __shfl_xor_sync(ALL, best, step);
            if (other >= 0 && (best < 0 || before(other, best))) best = other;
        }
        last = best;
        if (threadIdx.x == 0) {
            values[size_t(row) * K + k] = from[best];
            columns[size_t(row) * K + k] = best;
        }
    }
}
