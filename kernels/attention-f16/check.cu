/*---
[[launch]]
kernel = "check_attention"
grid = ["S", "H", "B"]
block = [64]
args = ["q", "k", "v", "o", "o_scale", "S", "scale"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "H", "S", "D"]
---*/
// The second opinion, by another road than reference.cu: one block walks over the keys of one row
// from the last to the first, 64 at a time, and never holds the whole row of scores. The sums are
// kept relative to a running maximum and divided by the softmax's mass only at the end.
#include <cuda_fp16.h>

constexpr int D = 64;

extern "C" __global__ void check_attention(const __half* q, const __half* k, const __half* v, double* o,
                                           double* o_scale, int S, float scale) {
    const size_t head = blockIdx.z * gridDim.y + blockIdx.y;
    const size_t row = head * S + blockIdx.x;
    const int lane = threadIdx.x;

    __shared__ double query[D];
    __shared__ double score[D];
    __shared__ double key_squares[D];  // the longest key that each lane met
    query[lane] = double(__half2float(q[row * D + lane])) * scale;
    key_squares[lane] = 0.0;

    double largest = -INFINITY;
    double mass = 0.0;
    double sum = 0.0;
    double magnitude = 0.0;
    for (int end = S; end > 0; end -= D) {
        // Lane = key: the score of key end - 1 - lane.
        const int key = end - 1 - lane;
        __syncthreads();
        if (key >= 0) {
            const __half* elements = k + (head * S + key) * D;
            double dot = 0.0;
            double squares = 0.0;
            for (int d = D - 1; d >= 0; --d) {
                const double element = __half2float(elements[d]);
                dot = fma(query[d], element, dot);
                squares = fma(element, element, squares);
            }
            score[lane] = dot;
            key_squares[lane] = fmax(key_squares[lane], squares);
        }
        __syncthreads();

        // All lanes follow the same maximum; each key's exponential is taken once for the block.
        const int count = min(D, end);
        double grown = largest;
        for (int j = 0; j < count; ++j) grown = fmax(grown, score[j]);
        __syncthreads();
        if (key >= 0) score[lane] = exp(score[lane] - grown);
        __syncthreads();

        // Lane = channel.
        const double keep = exp(largest - grown);
        mass *= keep;
        sum *= keep;
        magnitude *= keep;
        largest = grown;
        for (int j = 0; j < count; ++j) {
            const double element = __half2float(v[(head * S + end - 1 - j) * D + lane]);
            mass += score[j];
            sum += score[j] * element;
            magnitude += score[j] * fabs(element);
        }
    }
    o[row * D + lane] = sum / mass;

    // The error's scale, as reference.cu explains it.
    __syncthreads();
    double query_squares = 0.0;
    double longest = 0.0;
    for (int d = 0; d < D; ++d) {
        query_squares += query[d] * query[d];
        longest = fmax(longest, key_squares[d]);
    }
    const double growth = 1.0 + 0x1p-12 * sqrt(query_squares * longest);
    o_scale[row * D + lane] = fmax(magnitude / mass * growth, 0x1p-14);
}
