/*---
[[launch]]
kernel = "check_causal"
grid = ["cdiv(S, 4)", "B * G * R"]
block = [128]
args = ["q", "k", "v", "o", "o_scale", "R", "S", "scale"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "G", "R", "S", "D"]
---*/
// The second opinion: a block takes four rows one after the other and walks over the keys of each from its own position
// to the first, 128 at a time, with sums that are relative to a running maximum.
#include <cuda_fp16.h>

constexpr int D = 128;

extern "C" __global__ void check_causal(const __half* q, const __half* k, const __half* v, double* o, double* o_scale,
                                        int R, int S, float scale) {
    __shared__ double query[D];
    __shared__ double weight[D];
    __shared__ double longest_of[D];
    const size_t head = blockIdx.y;
    const size_t group = head / R;
    const int lane = threadIdx.x;
    for (int position = blockIdx.x; position < S; position += gridDim.x) {
        const size_t row = head * S + position;
        __syncthreads();
        query[lane] = double(__half2float(q[row * D + lane])) * scale;
        longest_of[lane] = 0.0;
        double largest = -INFINITY;
        double mass = 0.0;
        double sum = 0.0;
        double magnitude = 0.0;
        for (int end = position + 1; end > 0; end -= D) {
            const int count = min(D, end);
            const int key = end - 1 - lane;
            __syncthreads();
            if (key >= 0) {
                double dot = 0.0;
                double squares = 0.0;
                for (int d = D - 1; d >= 0; --d) {
                    const double element = __half2float(k[(group * S + key) * D + d]);
                    dot = fma(query[d], element, dot);
                    squares = fma(element, element, squares);
                }
                weight[lane] = dot;
                longest_of[lane] = fmax(longest_of[lane], squares);
            }
            __syncthreads();
            double grown = largest;
            for (int j = 0; j < count; ++j) grown = fmax(grown, weight[j]);
            __syncthreads();
            if (key >= 0) weight[lane] = exp(weight[lane] - grown);
            __syncthreads();
            const double keep = exp(largest - grown);
            mass *= keep, sum *= keep, magnitude *= keep;
            largest = grown;
            for (int j = 0; j < count; ++j) {
                const double element = __half2float(v[(group * S + end - 1 - j) * D + lane]);
                mass += weight[j];
                sum += weight[j] * element;
                magnitude += weight[j] * fabs(element);
            }
        }
        o[row * D + lane] = sum / mass;
        __syncthreads();
        double squares = 0.0;
        double longest = 0.0;
        for (int d = 0; d < D; ++d) {
            squares += query[d] * query[d];
            longest = fmax(longest, longest_of[d]);
        }
        const double growth = 1.0 + 0x1p-12 * sqrt(squares * longest);
        o_scale[row * D + lane] = fmax(magnitude / mass * growth, 0x1p-14);
    }
}
