/*---
[idea]
title = "read the row once and keep it in registers"
hypothesis = """
Three walks over a row load every element three times and compute its exponential twice. A warp can \
hold a share of the row in registers: one load in 16-byte pieces, one exponential, one store. A group \
of warps sized to the row leaves no thread without work, whether a row has 128 elements or 8192."""
gain = [1.3, 2.5]

[step]
phase = "memory"
sweep = ["VECTORS", "ROWS"]

[[launch]]
kernel = "softmax"
grid = ["cdiv(R, ROWS)"]
block = ["32 * min(32 / ROWS, cdiv(C, 128 * VECTORS))", "ROWS"]
args = ["x", "y", "R", "C"]

[tunables.VECTORS]
value = 2
choices = [1, 2, 4]
[tunables.ROWS]
value = 1
choices = [1, 2, 4]
---*/
// A block is ROWS groups of whole warps, one group per row; a thread holds VECTORS float4 of its
// row. Rows that are longer than a group can hold are taken in several pieces, with the sums kept
// relative to a running maximum, and read a second time to be written.
constexpr int MOST_WARPS = 32;
constexpr unsigned ALL = 0xffffffffu;

struct Piece {
    float4 part[VECTORS];
};

// Elements past the end are -inf: neutral for the maximum, zero for the mass.
__device__ Piece load(const float* from, int first, int C) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int c = first + 4 * (threadIdx.x + i * blockDim.x);
        if (C % 4 == 0 && c < C) {
            piece.part[i] = *reinterpret_cast<const float4*>(from + c);
        } else {
            piece.part[i].x = c < C ? from[c] : -INFINITY;
            piece.part[i].y = c + 1 < C ? from[c + 1] : -INFINITY;
            piece.part[i].z = c + 2 < C ? from[c + 2] : -INFINITY;
            piece.part[i].w = c + 3 < C ? from[c + 3] : -INFINITY;
        }
    }
    return piece;
}

__device__ void store(float* to, int first, int C, const Piece& piece, float factor) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const int c = first + 4 * (threadIdx.x + i * blockDim.x);
        const float4 p = piece.part[i];
        const float4 scaled = make_float4(p.x * factor, p.y * factor, p.z * factor, p.w * factor);
        if (C % 4 == 0 && c < C) {
            *reinterpret_cast<float4*>(to + c) = scaled;
        } else {
            if (c < C) to[c] = scaled.x;
            if (c + 1 < C) to[c + 1] = scaled.y;
            if (c + 2 < C) to[c + 2] = scaled.z;
            if (c + 3 < C) to[c + 3] = scaled.w;
        }
    }
}

__device__ float max_of(const Piece& piece) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const float4 p = piece.part[i];
        largest = fmaxf(largest, fmaxf(fmaxf(p.x, p.y), fmaxf(p.z, p.w)));
    }
    return largest;
}

// Replaces every element by its exponential relative to `largest`; returns their sum.
__device__ float exponentiate(Piece& piece, float largest) {
    float mass = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        float4& p = piece.part[i];
        p = make_float4(expf(p.x - largest), expf(p.y - largest), expf(p.z - largest),
                        expf(p.w - largest));
        mass += (p.x + p.y) + (p.z + p.w);
    }
    return mass;
}

struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Joins one value of every thread of a row; all its threads get the result.
template <class Join>
__device__ float join_row(float value, Join join) {
    __shared__ float of_warp[ROWS][MOST_WARPS / ROWS];
    for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(ALL, value, step));
    const int warps = blockDim.x / 32;
    if (warps == 1) return value;
    __syncthreads();  // `of_warp` may still be read for the previous join
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.y][threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[threadIdx.y][0];
    for (int w = 1; w < warps; ++w) value = join(value, of_warp[threadIdx.y][w]);
    return value;
}

extern "C" __global__ void __launch_bounds__(32 * MOST_WARPS)
    softmax(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    const int row = blockIdx.x * ROWS + threadIdx.y;
    // Threads past the last row follow it, for the barriers' sake, and write nothing.
    const size_t offset = size_t(min(row, R - 1)) * C;
    const float* from = x + offset;
    const int stride = 4 * VECTORS * blockDim.x;

    Piece piece = load(from, 0, C);
    float largest = join_row(max_of(piece), Max());
    float mass = exponentiate(piece, largest);
    if (C <= stride) {
        const float factor = 1.0f / join_row(mass, Sum());
        if (row < R) store(y + offset, 0, C, piece, factor);
        return;
    }

    for (int first = stride; first < C; first += stride) {
        piece = load(from, first, C);
        const float grown = join_row(fmaxf(largest, max_of(piece)), Max());
        mass = mass * expf(largest - grown) + exponentiate(piece, grown);
        largest = grown;
    }
    const float factor = 1.0f / join_row(mass, Sum());
    for (int first = 0; first < C; first += stride) {
        piece = load(from, first, C);
        exponentiate(piece, largest);
        if (row < R) store(y + offset, first, C, piece, factor);
    }
}
