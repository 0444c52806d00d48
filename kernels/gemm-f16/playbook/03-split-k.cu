/*---
[idea]
title = "cut the inner dimension where the grid lacks blocks, copy asynchronously"
hypothesis = """
Tiles of 64 x 64 give `tokens` eight blocks and `square` 36, for a device of dozens of multiprocessors. \
Slices of K multiply the blocks; each leaves its sums in f32, and a second launch adds them. \
Asynchronous copies bring the next tiles without passing through registers."""
gain = [0.8, 2.0]

[step]
phase = "tensor"
sweep = ["STAGES", "WANTED"]

[[launch]]
kernel = "multiply_slices"
grid = [
  "cdiv(N, 64)",
  "cdiv(M, 64)",
  "min(16, min(cdiv(K, 128), cdiv(WANTED * SM_COUNT, cdiv(N, 64) * cdiv(M, 64))))",
]
block = [128]
args = ["a", "b", "part", "M", "N", "K"]

[[launch]]
kernel = "add_slices"
grid = ["cdiv(M * N, 256)"]
block = [
  64,
  "min(16, min(cdiv(K, 128), cdiv(WANTED * SM_COUNT, cdiv(N, 64) * cdiv(M, 64))))",
]
args = ["part", "c", "M", "N"]

[workspace.part]
dtype = "f32"
shape = [
  "min(16, min(cdiv(K, 128), cdiv(WANTED * SM_COUNT, cdiv(N, 64) * cdiv(M, 64))))",
  "M",
  "N",
]

[tunables.STAGES]
value = 3
choices = [2, 3, 4]
[tunables.WANTED]
value = 1
choices = [1, 2, 4]
---*/
// `multiply_slices`: four warps, two by two, each with 32 x 32 of the block's 64 x 64 outputs; the last
// index of the grid is the slice of K. `add_slices`: the last index of the block is the slice, and a
// thread takes four neighbouring elements.
#include "tensor_core.cuh"

constexpr int SIDE = 64;  // rows and columns of c in a block
constexpr int DEPTH = 32;
constexpr int THREADS = 128;
constexpr int VECTOR = 8;  // f16 in 16 bytes
constexpr int PAD = 8;     // the eight rows of a matrix load start on different banks
constexpr int MOST_SLICES = 16;

struct Tiles {
    __half left[SIDE][DEPTH + PAD];
    __half right[DEPTH][SIDE + PAD];
};

// Starts to copy the tiles of a and b whose inner dimension begins at `first`; what lies beyond the
// edges becomes zeros, which add nothing.
__device__ void stage(Tiles& tiles, const __half* a, const __half* b, int first_row, int first_column,
                      int first, int M, int N, int K) {
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * DEPTH / VECTOR; i += THREADS) {
        const int row = i / (DEPTH / VECTOR);
        const int k = i % (DEPTH / VECTOR) * VECTOR;
        const bool exists = first_row + row < M && first + k < K;
        copy_async(&tiles.left[row][k], exists ? a + size_t(first_row + row) * K + first + k : a, exists);
    }
#pragma unroll
    for (int i = threadIdx.x; i < DEPTH * SIDE / VECTOR; i += THREADS) {
        const int k = i / (SIDE / VECTOR);
        const int column = i % (SIDE / VECTOR) * VECTOR;
        const bool exists = first + k < K && first_column + column < N;
        copy_async(&tiles.right[k][column],
                   exists ? b + size_t(first + k) * N + first_column + column : b, exists);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    multiply_slices(const __half* __restrict__ a, const __half* __restrict__ b,
                    float* __restrict__ part, int M, int N, int K) {
    __shared__ __align__(16) Tiles tiles[STAGES];
    const int lane = threadIdx.x % 32;
    const int first_row = blockIdx.y * SIDE;
    const int first_column = blockIdx.x * SIDE;
    const int warp_row = threadIdx.x / 64 * 32;
    const int warp_column = threadIdx.x / 32 % 2 * 32;
    const int steps = (K + DEPTH - 1) / DEPTH;
    const int steps_of_slice = (steps + gridDim.z - 1) / gridDim.z;
    const int begin = blockIdx.z * steps_of_slice;
    const int end = min(begin + steps_of_slice, steps);

    // A group of copies per step, empty past the end, so that the number of groups under way tells
    // which step has arrived.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s < end) {
            stage(tiles[s], a, b, first_row, first_column, (begin + s) * DEPTH, M, N, K);
        }
        commit_copies();
    }

    float sum[2][4][4] = {};  // 16 rows, 8 columns, the elements of a lane
    for (int step = begin; step < end; ++step) {
        wait_for_copies<STAGES - 2>();
        // Now the step's tiles are whole for all threads, and no thread still reads the tiles that
        // the next copies replace.
        __syncthreads();
        const int ahead = step + STAGES - 1;
        if (ahead < end) {
            stage(tiles[(ahead - begin) % STAGES], a, b, first_row, first_column, ahead * DEPTH, M, N,
                  K);
        }
        commit_copies();

        const Tiles& current = tiles[(step - begin) % STAGES];
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned rows[2][4];
            unsigned columns[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(rows[i], &current.left[warp_row + 16 * i + lane % 16][k + lane / 16 * 8]);
                load_matrices_transposed(
                    columns[i], &current.right[k + lane % 16][warp_column + 16 * i + lane / 16 * 8]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_add(sum[i][j], rows[i], columns[j / 2][j % 2 * 2],
                                 columns[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    float* out = part + size_t(blockIdx.z) * M * N;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = first_row + warp_row + 16 * i + lane / 4;
            const int column = first_column + warp_column + 8 * j + lane % 4 * 2;
            // N is even, so a pair is inside as a whole.
            if (column >= N) continue;
            if (row < M) {
                *reinterpret_cast<float2*>(out + size_t(row) * N + column) =
                    make_float2(sum[i][j][0], sum[i][j][1]);
            }
            if (row + 8 < M) {
                *reinterpret_cast<float2*>(out + size_t(row + 8) * N + column) =
                    make_float2(sum[i][j][2], sum[i][j][3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(64 * MOST_SLICES)
    add_slices(const float* __restrict__ part, __half* __restrict__ c, int M, int N) {
    __shared__ float4 parts[MOST_SLICES][64];
    const size_t elements = size_t(M) * N;  // a multiple of eight, as N is
    const size_t at = (size_t(blockIdx.x) * 64 + threadIdx.x) * 4;
    if (at < elements) {
        parts[threadIdx.y][threadIdx.x] =
            *reinterpret_cast<const float4*>(part + threadIdx.y * elements + at);
    }
    __syncthreads();
    if (threadIdx.y != 0 || at >= elements) return;
    float4 sum = parts[0][threadIdx.x];
    for (int s = 1; s < blockDim.y; ++s) {
        const float4 more = parts[s][threadIdx.x];
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    __half2* to = reinterpret_cast<__half2*>(c + at);
    to[0] = __floats2half2_rn(sum.x, sum.y);
    to[1] = __floats2half2_rn(sum.z, sum.w);
}
