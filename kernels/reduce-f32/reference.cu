/*---
[[launch]]
kernel = "reference_reduce"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["x", "y", "y_scale", "R", "C"]

[workspace.y_scale]
dtype = "f64"
shape = ["R"]
---*/
// The right answer: the sum in binary64, and beside it the sum of the magnitudes, to which rounding
// errors are proportional. A warp takes one row: each lane adds a strided share, and exchanges join the
// shares.
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void reference_reduce(const float* x, double* y, double* y_scale, int R,
                                            int C) {
    const int number = blockIdx.x * 4 + threadIdx.y;
    if (number >= R) return;
    const float* row = x + size_t(number) * C;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = threadIdx.x; c < C; c += 32) {
        sum += double(row[c]);
        magnitude += fabs(double(row[c]));
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL, sum, step);
        magnitude += __shfl_xor_sync(ALL, magnitude, step);
    }
    if (threadIdx.x != 0) return;
    y[number] = sum;
    // Below the smallest normal number of f32 the spacing is that number's.
    y_scale[number] = fmax(magnitude, 0x1p-126);
}
