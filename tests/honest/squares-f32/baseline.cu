/*---
[[launch]]
kernel = "square_rows"
grid = ["cdiv(R, 64)"]
block = [64]
args = ["x", "squares", "R", "C"]
---*/
// One thread adds the squares of one row in order.
extern "C" __global__ void square_rows(const float* __restrict__ x, float* __restrict__ squares, int R, int C) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= R) return;
    float sum = 0.0f;
    for (int column = 0; column < C; ++column) {
        const float value = x[size_t(row) * C + column];
        sum += value * value;
    }
    squares[row] = sum;
}
