/*---
[[launch]]
kernel = "reference_scores"
grid = ["cdiv(S, 64)", "cdiv(S, 4)", "B * H"]
block = [64]
args = ["q", "k", "scores", "S", "scale"]

[[launch]]
kernel = "reference_probabilities"
grid = ["cdiv(B * H * S, 64)"]
block = [64]
args = ["scores", "B", "H", "S"]

[[launch]]
kernel = "reference_output"
grid = ["cdiv(S, 4)", "B * H"]
block = [64]
args = ["scores", "v", "o", "o_scale", "S"]

[workspace.scores]
dtype = "f64"
shape = ["B", "H", "S", "S"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "H", "S", "D"]
---*/
// The right answer, in binary64 and in the order of the textbook: all scores, then the softmax of
// each row, then the weighted sum of the values. The only liberty is that a block handles four
// rows at once, so that an element of k or v is converted once for the four.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = 4;

// Thread = one key; scores[row][key] = scale * sum_d q[row][d] k[key][d].
extern "C" __global__ void reference_scores(const __half* q, const __half* k, double* scores, int S,
                                            float scale) {
    const size_t head = blockIdx.z;
    const int first_row = blockIdx.y * ROWS;
    const int key = blockIdx.x * 64 + threadIdx.x;

    __shared__ double query[ROWS][D];
    for (int r = 0; r < ROWS; ++r) {
        const int row = min(first_row + r, S - 1);
        query[r][threadIdx.x] = __half2float(q[(head * S + row) * D + threadIdx.x]);
    }
    __syncthreads();
    if (key >= S) return;

    double sum[ROWS] = {};
    for (int d = 0; d < D; ++d) {
        const double element = __half2float(k[(head * S + key) * D + d]);
        for (int r = 0; r < ROWS; ++r) sum[r] += query[r][d] * element;
    }
    for (int r = 0; r < ROWS && first_row + r < S; ++r) {
        scores[(head * S + first_row + r) * S + key] = sum[r] * scale;
    }
}

// Thread = one row of scores, replaced by its softmax.
extern "C" __global__ void reference_probabilities(double* scores, int B, int H, int S) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= B * H * S) return;
    double* p = scores + size_t(row) * S;

    double largest = p[0];
    for (int key = 1; key < S; ++key) largest = fmax(largest, p[key]);
    double mass = 0.0;
    for (int key = 0; key < S; ++key) {
        p[key] = exp(p[key] - largest);
        mass += p[key];
    }
    for (int key = 0; key < S; ++key) p[key] /= mass;
}

// Thread = one channel; o = sum_key p v, and its error scale sum_key p |v|.
extern "C" __global__ void reference_output(const double* probabilities, const __half* v, double* o,
                                            double* o_scale, int S) {
    const size_t head = blockIdx.y;
    const int first_row = blockIdx.x * ROWS;
    const int channel = threadIdx.x;

    double sum[ROWS] = {};
    double magnitude[ROWS] = {};
    for (int key = 0; key < S; ++key) {
        const double element = __half2float(v[(head * S + key) * D + channel]);
        for (int r = 0; r < ROWS; ++r) {
            const int row = min(first_row + r, S - 1);
            const double p = probabilities[(head * S + row) * S + key];
            sum[r] += p * element;
            magnitude[r] += p * fabs(element);
        }
    }
    for (int r = 0; r < ROWS && first_row + r < S; ++r) {
        o[(head * S + first_row + r) * D + channel] = sum[r];
        // Below the normal numbers of f16 an error is absolute: half of 2^-24, which is u_out 2^-14.
        o_scale[(head * S + first_row + r) * D + channel] = fmax(magnitude[r], 0x1p-14);
    }
}
