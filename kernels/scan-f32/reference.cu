/*---
[[launch]]
kernel = "add_chunks"
grid = ["cdiv(N, 512)"]
block = [1]
args = ["x", "sums", "magnitudes", "N"]

[[launch]]
kernel = "reference_scan"
grid = ["cdiv(N, 512)"]
block = [1]
args = ["x", "y", "y_scale", "sums", "magnitudes", "N"]

[workspace.y_scale]
dtype = "f64"
shape = ["N"]
[workspace.sums]
dtype = "f64"
shape = ["cdiv(N, 512)"]
[workspace.magnitudes]
dtype = "f64"
shape = ["cdiv(N, 512)"]
---*/
// The right answer in binary64: the sums of chunks of 512, then each chunk's prefix sums on top of the
// chunks before it. Beside them the prefix sums of the magnitudes, to which rounding errors are
// proportional.
constexpr int CHUNK = 512;

extern "C" __global__ void add_chunks(const float* x, double* sums, double* magnitudes, int N) {
    const int first = blockIdx.x * CHUNK;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int n = first; n < min(first + CHUNK, N); ++n) {
        sum += double(x[n]);
        magnitude += fabs(double(x[n]));
    }
    sums[blockIdx.x] = sum;
    magnitudes[blockIdx.x] = magnitude;
}

extern "C" __global__ void reference_scan(const float* x, double* y, double* y_scale, const double* sums,
                                          const double* magnitudes, int N) {
    double sum = 0.0;
    double magnitude = 0.0;
    for (int c = 0; c < blockIdx.x; ++c) {
        sum += sums[c];
        magnitude += magnitudes[c];
    }
    const int first = blockIdx.x * CHUNK;
    for (int n = first; n < min(first + CHUNK, N); ++n) {
        sum += double(x[n]);
        magnitude += fabs(double(x[n]));
        y[n] = sum;
        // Below the smallest normal number of f32 the spacing is that number's.
        y_scale[n] = fmax(magnitude, 0x1p-126);
    }
}
