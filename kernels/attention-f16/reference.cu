/*---
[[launch]]
kernel = "reference_scores"
grid = ["cdiv(S, 64)", "cdiv(S, 4)", "B * H"]
block = [64]
args = ["q", "k", "scores", "key_norm", "S", "scale"]

[[launch]]
kernel = "reference_probabilities"
grid = ["cdiv(S, 4)", "B * H"]
block = [32, 4]
args = ["q", "key_norm", "scores", "growth", "smallest", "S", "scale"]

[[launch]]
kernel = "reference_output"
grid = ["cdiv(S, 4)", "B * H"]
block = [32]
args = ["scores", "growth", "smallest", "v", "o", "o_scale", "S"]

[workspace.scores]
dtype = "f64"
shape = ["B", "H", "S", "S"]

[workspace.key_norm]
dtype = "f64"
shape = ["B", "H", "S"]

[workspace.growth]
dtype = "f64"
shape = ["B", "H", "S"]

[workspace.smallest]
dtype = "f64"
shape = ["B", "H", "S"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "H", "S", "D"]
---*/
// The right answer, in binary64 and in the order of the textbook: all scores, then the softmax of
// each row, then the weighted sum of the values. The only liberties are that a block handles four
// rows at once, so that an element of k or v is converted once for the four, and that the lanes of
// a warp add strided shares of a row's mass.
//
// Beside each output stands the scale of the error that an honest kernel may make there: the sum
// over the keys of probability times |v|, grown where scores are large. An f32 score is off by about
// u_acc |q| |k| scale, whatever its own size, which is also the relative error of its weight and of
// the mass. The tolerance counts the scale in units of u_out, and 2 u_acc / u_out is 2^-12.
//
// Kernels hold weights in f16, relative to the row's largest, for the second product. A weight below
// 2^-14, the smallest normal number of f16, is off by up to 2^-25, and by no more than itself. In
// units of u_out = 2^-11 that is 2^-14 and 2^11 times the weight.
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = 4;

// Thread = one key; scores[row][key] = scale * sum_d q[row][d] k[key][d].
extern "C" __global__ void reference_scores(const __half* q, const __half* k, double* scores,
                                            double* key_norm, int S, float scale) {
    const size_t head = blockIdx.z;
    const int first_row = blockIdx.y * ROWS;
    const int key = blockIdx.x * 64 + threadIdx.x;

    __shared__ double query[D][ROWS];
    for (int r = 0; r < ROWS; ++r) {
        const int row = min(first_row + r, S - 1);
        query[threadIdx.x][r] = __half2float(q[(head * S + row) * D + threadIdx.x]);
    }
    __syncthreads();
    if (key >= S) return;

    double sum[ROWS] = {};
    double squares = 0.0;
    const uint4* pieces = reinterpret_cast<const uint4*>(k + (head * S + key) * D);
    for (int piece = 0; piece < D / 8; ++piece) {
        const uint4 eight = pieces[piece];
        const __half* elements = reinterpret_cast<const __half*>(&eight);
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            const double element = __half2float(elements[d]);
            for (int r = 0; r < ROWS; ++r) sum[r] += query[8 * piece + d][r] * element;
            squares += element * element;
        }
    }
    for (int r = 0; r < ROWS && first_row + r < S; ++r) {
        scores[(head * S + first_row + r) * S + key] = sum[r] * scale;
    }
    if (first_row == 0) key_norm[head * S + key] = sqrt(squares);
}

constexpr unsigned ALL = 0xffffffffu;

__device__ double add_warp(double value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

__device__ double largest_of_warp(double value) {
    for (int step = 16; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

// Warp = one row of scores, replaced by its softmax.
extern "C" __global__ void reference_probabilities(const __half* q, const double* key_norm,
                                                   double* scores, double* growth, double* smallest,
                                                   int S, float scale) {
    const size_t head = blockIdx.y;
    const int position = blockIdx.x * 4 + threadIdx.y;
    if (position >= S) return;
    const int lane = threadIdx.x;
    const size_t row = head * S + position;
    double* p = scores + row * S;

    double largest = -INFINITY;
    for (int key = lane; key < S; key += 32) largest = fmax(largest, p[key]);
    largest = largest_of_warp(largest);
    double mass = 0.0;
    for (int key = lane; key < S; key += 32) {
        p[key] = exp(p[key] - largest);
        mass += p[key];
    }
    mass = add_warp(mass);
    for (int key = lane; key < S; key += 32) p[key] /= mass;

    double squares = 0.0;
    for (int d = lane; d < D; d += 32) {
        const double element = __half2float(q[row * D + d]);
        squares += element * element;
    }
    squares = add_warp(squares);
    double longest = 0.0;
    for (int key = lane; key < S; key += 32) longest = fmax(longest, key_norm[head * S + key]);
    longest = largest_of_warp(longest);
    if (lane != 0) return;
    smallest[row] = 0x1p-14 / mass;
    growth[row] = 1.0 + 0x1p-12 * sqrt(squares) * longest * scale;
}

// Warp = four rows, thread = two neighbouring channels; o = sum_key p v.
extern "C" __global__ void reference_output(const double* probabilities, const double* growth,
                                            const double* smallest, const __half* v, double* o, double* o_scale, int S) {
    const size_t head = blockIdx.y;
    const int first_row = blockIdx.x * ROWS;
    const int channel = 2 * threadIdx.x;

    // The probabilities of 32 keys, beside what they weigh in the scale of the error; one key for each lane.
    __shared__ double2 weights[32][ROWS];
    double sum[ROWS][2] = {};
    double magnitude[ROWS][2] = {};
    for (int first = 0; first < S; first += 32) {
        const int own = min(first + int(threadIdx.x), S - 1);
        __syncwarp();
        for (int r = 0; r < ROWS; ++r) {
            const size_t row = head * S + min(first_row + r, S - 1);
            const double p = probabilities[row * S + own];
            weights[threadIdx.x][r] = make_double2(p, fmax(p, fmin(0x1p11 * p, smallest[row])));
        }
        __syncwarp();
        for (int key = first; key < min(first + 32, S); ++key) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(v + (head * S + key) * D + channel));
            const double elements[2] = {pair.x, pair.y};
            for (int r = 0; r < ROWS; ++r) {
                const double2 weight = weights[key - first][r];
                for (int side = 0; side < 2; ++side) {
                    sum[r][side] += weight.x * elements[side];
                    magnitude[r][side] += weight.y * fabs(elements[side]);
                }
            }
        }
    }
    for (int r = 0; r < ROWS && first_row + r < S; ++r) {
        const size_t row = head * S + first_row + r;
        for (int side = 0; side < 2; ++side) {
            o[row * D + channel + side] = sum[r][side];
            // Below the smallest normal number of f16 the spacing, and so the rounding, is that number's.
            o_scale[row * D + channel + side] = fmax(magnitude[r][side] * growth[row], 0x1p-14);
        }
    }
}
