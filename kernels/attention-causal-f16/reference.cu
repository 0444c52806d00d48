/*---
[[launch]]
kernel = "reference_causal"
grid = ["cdiv(S, 4)", "R", "B * G"]
block = [128]
args = ["q", "k", "v", "o", "o_scale", "S", "scale"]

[workspace.o_scale]
dtype = "f64"
shape = ["B", "G", "R", "S", "D"]
---*/
// The right answer in binary64. A block takes four neighbouring rows, so that an element of k or v is converted once for
// the four: first the largest score over the keys that each row may see, then the weighted sums of the values, 128 keys
// at a time. A key behind a row's position has the weight 0 there.
//
// Beside each output stands the scale of the error that an honest kernel may make there, for the same reasons as in
// attention-f16: the sum over the keys of probability times |v|, grown where scores are large (an f32 score is off by
// about u_acc |q| |k| scale), and with weights that f16 holds as subnormal numbers counted as the smallest normal one,
// up to 2^11 times themselves.
#include <cuda_fp16.h>

constexpr int D = 128;
constexpr int ROWS = 4;

__device__ double largest_of_block(double value, double* share) {
    for (int step = 16; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) share[threadIdx.x / 32] = value;
    __syncthreads();
    double largest = share[0];
    for (int warp = 1; warp < D / 32; ++warp) largest = fmax(largest, share[warp]);
    return largest;
}

__device__ double sum_of_block(double value, double* share) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) share[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = share[0];
    for (int warp = 1; warp < D / 32; ++warp) sum += share[warp];
    return sum;
}

// The products of the rows' queries with a key, and the key's squared length.
struct Products {
    double score[ROWS];
    double squares;
};

__device__ Products multiply(const double (&query)[ROWS][D], const __half* key) {
    Products products = {};
    for (int d = 0; d < D; d += 2) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(key + d));
        const double2 element = {pair.x, pair.y};
        for (int row = 0; row < ROWS; ++row) {
            const double2 part = *reinterpret_cast<const double2*>(&query[row][d]);
            products.score[row] += part.x * element.x;
            products.score[row] += part.y * element.y;
        }
        products.squares += element.x * element.x + element.y * element.y;
    }
    return products;
}

extern "C" __global__ void reference_causal(const __half* q, const __half* k, const __half* v, double* o,
                                            double* o_scale, int S, float scale) {
    __shared__ __align__(16) double query[ROWS][D];
    __shared__ double2 weight[ROWS][D];  // and as the error scale counts it
    __shared__ double share[D / 32];
    const int first_row = blockIdx.x * ROWS;
    const int last_row = min(first_row + ROWS, S) - 1;
    const size_t group = blockIdx.z;
    const size_t head = group * gridDim.y + blockIdx.y;
    const int thread = threadIdx.x;
    for (int row = 0; row < ROWS; ++row) {
        query[row][thread] = __half2float(q[(head * S + min(first_row + row, last_row)) * D + thread]);
    }
    __syncthreads();

    double largest[ROWS];
    double longest[ROWS] = {};  // squared
    for (int row = 0; row < ROWS; ++row) largest[row] = -INFINITY;
    for (int key = thread; key <= last_row; key += D) {
        const Products products = multiply(query, k + (group * S + key) * D);
        for (int row = 0; row < ROWS; ++row) {
            if (key > first_row + row) continue;
            largest[row] = fmax(largest[row], products.score[row] * scale);
            longest[row] = fmax(longest[row], products.squares);
        }
    }
    for (int row = 0; row < ROWS; ++row) {
        largest[row] = largest_of_block(largest[row], share);
        longest[row] = largest_of_block(longest[row], share);
    }

    double mass[ROWS] = {};  // of this thread's keys
    double sum[ROWS] = {};
    double magnitude[ROWS] = {};
    for (int first = 0; first <= last_row; first += D) {
        // Thread = key.
        const int key = first + thread;
        __syncthreads();
        if (key <= last_row) {
            const Products products = multiply(query, k + (group * S + key) * D);
            for (int row = 0; row < ROWS; ++row) {
                const bool seen = key <= first_row + row;
                const double w = seen ? exp(products.score[row] * scale - largest[row]) : 0.0;
                weight[row][thread] = {w, fmax(w, fmin(0x1p11 * w, 0x1p-14))};
                mass[row] += w;
            }
        }
        __syncthreads();
        // Thread = channel.
        const int count = min(D, last_row + 1 - first);
        for (int j = 0; j < count; ++j) {
            const double element = __half2float(v[(group * S + first + j) * D + thread]);
            for (int row = 0; row < ROWS; ++row) {
                if (first + j > first_row + row) continue;  // 0 times an infinity is not 0
                const double2 w = weight[row][j];
                sum[row] += w.x * element;
                magnitude[row] += w.y * fabs(element);
            }
        }
    }
    for (int row = 0; row < ROWS; ++row) mass[row] = sum_of_block(mass[row], share);
    for (int row = 0; row < ROWS && first_row + row < S; ++row) {
        double squares = 0.0;
        for (int d = 0; d < D; ++d) squares += query[row][d] * query[row][d];
        const double growth = 1.0 + 0x1p-12 * sqrt(squares * longest[row]) * scale;
        const size_t at = (head * S + first_row + row) * D + thread;
        o[at] = sum[row] / mass[row];
        // Below the smallest normal number of f16 the spacing, and so the rounding, is that number's.
        o_scale[at] = fmax(magnitude[row] / mass[row] * growth, 0x1p-14);
    }
}
