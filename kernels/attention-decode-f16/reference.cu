/*---
[[launch]]
kernel = "reference_decode"
grid = ["R", "G", "B"]
block = [128]
args = ["q", "k", "v", "o", "o_scale", "scores", "S", "scale"]

[workspace.scores]
dtype = "f64"
shape = ["B", "G", "R", "S"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "G", "R", "D"]
---*/
// The right answer in binary64 and in the order of the textbook: all scores of a row, their softmax, the
// weighted sum of the values. A block takes one query head.
//
// Beside each output stands the scale of the error that an honest kernel may make there, for the same
// reasons as in attention-f16: the sum over the keys of probability times |v|, grown where scores are large
// (an f32 score is off by about u_acc |q| |k| scale), and with weights that f16 holds as subnormal numbers
// counted as the smallest normal one, up to 2^11 times themselves.
#include <cuda_fp16.h>

constexpr int D = 128;

// The largest, or the sum, over the block: exchanges join the lanes of a warp, and each thread the warps.
__device__ double join_block(double value, double* share, bool maximum) {
    for (int step = 16; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, value, step);
        value = maximum ? fmax(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) share[threadIdx.x / 32] = value;
    __syncthreads();
    double joined = share[0];
    for (int warp = 1; warp < D / 32; ++warp) joined = maximum ? fmax(joined, share[warp]) : joined + share[warp];
    return joined;
}

extern "C" __global__ void reference_decode(const __half* q, const __half* k, const __half* v, double* o,
                                            double* o_scale, double* scores, int S, float scale) {
    __shared__ double query[D];
    __shared__ double share[D / 32];
    const size_t group = size_t(blockIdx.z) * gridDim.y + blockIdx.y;
    const size_t row = group * gridDim.x + blockIdx.x;
    const int thread = threadIdx.x;
    query[thread] = __half2float(q[row * D + thread]);
    __syncthreads();

    double largest = -INFINITY;
    double longest = 0.0;
    double* own = scores + row * S;
    for (int key = thread; key < S; key += D) {
        const __half* elements = k + (group * S + key) * D;
        double sum = 0.0;
        double squares = 0.0;
        for (int d = 0; d < D; ++d) {
            const double element = __half2float(elements[d]);
            sum += query[d] * element;
            squares += element * element;
        }
        own[key] = sum * scale;
        largest = fmax(largest, own[key]);
        longest = fmax(longest, sqrt(squares));
    }
    largest = join_block(largest, share, true);
    longest = join_block(longest, share, true);
    double mass = 0.0;
    for (int key = thread; key < S; key += D) {
        own[key] = exp(own[key] - largest);
        mass += own[key];
    }
    mass = join_block(mass, share, false);
    const double length = sqrt(join_block(query[thread] * query[thread], share, false));
    __syncthreads();

    // Thread = channel.
    double sum = 0.0;
    double magnitude = 0.0;
    for (int key = 0; key < S; ++key) {
        const double p = own[key] / mass;
        const double element = __half2float(v[(group * S + key) * D + thread]);
        sum += p * element;
        magnitude += fmax(p, fmin(0x1p11 * p, 0x1p-14 / mass)) * fabs(element);
    }
    o[row * D + thread] = sum;
    // Below the smallest normal number of f16 the spacing, and so the rounding, is that number's.
    o_scale[row * D + thread] = fmax(magnitude * (1.0 + 0x1p-12 * length * longest * scale), 0x1p-14);
}
