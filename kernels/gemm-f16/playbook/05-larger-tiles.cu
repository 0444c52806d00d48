/*---
[idea]
title = "tiles of 128 x 128 where there are enough of them"
hypothesis = """
A tile of 64 x 64 reads 128 rows and columns for 4,096 sums, one of 128 x 128 reads 256 for 16,384: half as many \
bytes through the second level cache for the same products, and each warp uses a fragment of b for four products and \
not for two. Where that leaves multiprocessors without a tile, the smaller ones stay."""
gain = [1.0, 1.5]

[step]
phase = "tensor"
sweep = ["STAGES", "LARGE_FROM"]

[[launch]]
kernel = "gemm"
grid = [
  "M > 64 ? (cdiv(M, 128) * cdiv(N, 128) >= LARGE_FROM ? cdiv(N, 128) : cdiv(N, 64)) : M > 16 ? cdiv(N, 64) : cdiv(N, 16)",
  "M > 64 ? (cdiv(M, 128) * cdiv(N, 128) >= LARGE_FROM ? cdiv(M, 128) : cdiv(M, 64)) : 1",
]
block = [256]
shared = "STAGES * 16384"
args = ["a", "b", "c", "M", "N", "K"]

[tunables.STAGES]
value = 3
choices = [2, 3, 4]
[tunables.LARGE_FROM]
value = 48
choices = [32, 48, 96]
---*/
#include "tensor_core.cuh"

constexpr int THREADS = 256;
constexpr int DEPTH = 32;
constexpr int VECTOR = 8;  // f16 in 16 bytes

template <int ROWS, int COLUMNS>
struct Tiles {
    uint4 left[ROWS * DEPTH / VECTOR];
    uint4 right[DEPTH * COLUMNS / VECTOR];
};

// A team of DOWN x ACROSS warps computes a tile of c, each warp 16 HIGH x 16 WIDE elements of it.
template <int DOWN, int ACROSS, int HIGH, int WIDE>
__device__ void multiply(const __half* __restrict__ a, const __half* __restrict__ b,
                         __half* __restrict__ c, int M, int N, int K) {
    constexpr int ROWS = 16 * HIGH * DOWN;
    constexpr int COLUMNS = 16 * WIDE * ACROSS;
    constexpr int TEAM = 32 * DOWN * ACROSS;  // threads
    constexpr int TEAMS = THREADS / TEAM;
    extern __shared__ __align__(16) unsigned char memory[];
    const int team = threadIdx.x / TEAM;
    const int member = threadIdx.x % TEAM;
    const int lane = threadIdx.x % 32;
    const int warp_row = member / 32 / ACROSS * 16 * HIGH;
    const int warp_column = member / 32 % ACROSS * 16 * WIDE;
    const int first_row = blockIdx.y * ROWS;
    const int first_column = blockIdx.x * COLUMNS;
    Tiles<ROWS, COLUMNS>* tiles = reinterpret_cast<Tiles<ROWS, COLUMNS>*>(memory) + team * STAGES;

    const int steps = (K + DEPTH - 1) / DEPTH;
    const int steps_of_team = (steps + TEAMS - 1) / TEAMS;
    const int begin = team * steps_of_team;
    const int end = min(begin + steps_of_team, steps);

    // Starts to copy the tiles of a step of this team; what lies beyond the edges becomes zeros, which
    // add nothing.
    const auto stage = [&](int step) {
        Tiles<ROWS, COLUMNS>& to = tiles[(step - begin) % STAGES];
        const int first = step * DEPTH;
#pragma unroll
        for (int i = member; i < ROWS * DEPTH / VECTOR; i += TEAM) {
            const int row = i / (DEPTH / VECTOR);
            const int piece = i % (DEPTH / VECTOR);
            const int k = piece * VECTOR;
            const bool exists = first_row + row < M && first + k < K;
            copy_async(&to.left[place<DEPTH / VECTOR>(row, piece)], exists ? a + size_t(first_row + row) * K + first + k : a, exists);
        }
#pragma unroll
        for (int i = member; i < DEPTH * COLUMNS / VECTOR; i += TEAM) {
            const int k = i / (COLUMNS / VECTOR);
            const int piece = i % (COLUMNS / VECTOR);
            const int column = piece * VECTOR;
            const bool exists = first + k < K && first_column + column < N;
            copy_async(&to.right[place<COLUMNS / VECTOR>(k, piece)],
                       exists ? b + size_t(first + k) * N + first_column + column : b, exists);
        }
    };

    // A group of copies per step, empty past the end, so that the number of groups under way tells
    // which step has arrived.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s < end) stage(begin + s);
        commit_copies();
    }

    float sum[HIGH][2 * WIDE][4] = {};  // 16 rows, 8 columns, the elements of a lane
    // All teams go through as many steps, because they meet at the same barriers.
    for (int step = begin; step < begin + steps_of_team; ++step) {
        wait_for_copies<STAGES - 2>();
        // Now the step's tiles are whole for all threads of the team, and none of them still reads the
        // tiles that the next copies replace.
        if (TEAM == 32) {
            __syncwarp();
        } else {
            __syncthreads();
        }
        if (step + STAGES - 1 < end) stage(step + STAGES - 1);
        commit_copies();
        if (step >= end) continue;

        const Tiles<ROWS, COLUMNS>& current = tiles[(step - begin) % STAGES];
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned rows[HIGH][4];
            unsigned columns[WIDE][4];
#pragma unroll
            for (int i = 0; i < HIGH; ++i) {
                const int at = place<DEPTH / VECTOR>(warp_row + 16 * i + lane % 16, k / VECTOR + lane / 16);
                load_matrices(rows[i], &current.left[at]);
            }
#pragma unroll
            for (int j = 0; j < WIDE; ++j) {
                const int at =
                    place<COLUMNS / VECTOR>(k + lane % 16, warp_column / VECTOR + 2 * j + lane / 16);
                load_matrices_transposed(columns[j], &current.right[at]);
            }
#pragma unroll
            for (int i = 0; i < HIGH; ++i) {
#pragma unroll
                for (int j = 0; j < 2 * WIDE; ++j) {
                    multiply_add(sum[i][j], rows[i], columns[j / 2][j % 2 * 2],
                                 columns[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    // The first team adds the sums of the others to its own.
    __syncthreads();  // the tiles may still be read
    float4* others = reinterpret_cast<float4*>(memory);
    constexpr int PARTS = HIGH * 2 * WIDE;  // of a thread
    if (team > 0) {
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            const float(&own)[4] = sum[p / (2 * WIDE)][p % (2 * WIDE)];
            others[((team - 1) * PARTS + p) * TEAM + member] = make_float4(own[0], own[1], own[2], own[3]);
        }
    }
    __syncthreads();
    if (team > 0) return;
#pragma unroll
    for (int t = 0; t < TEAMS - 1; ++t) {
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            const float4 more = others[(t * PARTS + p) * TEAM + member];
            float(&own)[4] = sum[p / (2 * WIDE)][p % (2 * WIDE)];
            own[0] += more.x;
            own[1] += more.y;
            own[2] += more.z;
            own[3] += more.w;
        }
    }

#pragma unroll
    for (int i = 0; i < HIGH; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * WIDE; ++j) {
            const int row = first_row + warp_row + 16 * i + lane / 4;
            const int column = first_column + warp_column + 8 * j + lane % 4 * 2;
            // N is even, so a pair is inside as a whole.
            if (column >= N) continue;
            if (row < M) {
                *reinterpret_cast<__half2*>(c + size_t(row) * N + column) =
                    __floats2half2_rn(sum[i][j][0], sum[i][j][1]);
            }
            if (row + 8 < M) {
                *reinterpret_cast<__half2*>(c + size_t(row + 8) * N + column) =
                    __floats2half2_rn(sum[i][j][2], sum[i][j][3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int M,
         int N, int K) {
    if (M > 64 && (M + 127) / 128 * ((N + 127) / 128) >= LARGE_FROM) {
        multiply<2, 4, 4, 2>(a, b, c, M, N, K);
    } else if (M > 16) {
        multiply<2, 2, 2, 2>(a, b, c, M, N, K);
    } else {
        multiply<1, 1, 1, 1>(a, b, c, M, N, K);
    }
}
