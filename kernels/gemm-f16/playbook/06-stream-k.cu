/*---
[idea]
title = "stream-K: the last, incomplete round of tiles in equal shares"
hypothesis = """
64 tiles of 128 x 128 on 58 multiprocessors give six of them two tiles and the others one, so that the launch \
takes as long as two. Persistent blocks, one for each multiprocessor, can take whole tiles as long as these make \
full rounds, and equal shares of the steps of the remaining ones, wherever tiles begin and end. The block that \
began a tile adds the sums of those that went on with it, behind a barrier of the grid."""
gain = [1.0, 1.5]

[step]
phase = "tensor"
sweep = ["STAGES", "SHARE"]

[[launch]]
kernel = "gemm"
cooperative = true
grid = ["min(SM_COUNT, M > 64 ? (cdiv(M, 128) * cdiv(N, 128) >= LARGE_FROM ? SM_COUNT : cdiv(M, 64) * cdiv(N, 64)) : M > 16 ? cdiv(N, 64) : cdiv(N, 16))"]
block = [256]
shared = "STAGES * 16384"
args = ["a", "b", "c", "partial", "M", "N", "K"]

# The sums of each block for a tile that another block began.
[workspace.partial]
dtype = "f32"
shape = ["SM_COUNT", "128 * 128"]

[tunables.STAGES]
value = 3
choices = [2, 3, 4]
[tunables.SHARE]
value = 4
choices = [2, 4, 8]
[tunables.LARGE_FROM]
value = 48
choices = [32, 48, 96]
---*/
// Stream-K: Osama, Merrill, Cecka, Garland, Owens, PPoPP 2023, in its form with whole tiles first. Their blocks wait for
// single others by flags, which a plan would have to clear by a launch more; here all meet once. What the barrier of
// the grid costs on a GPU was not measured; the time model counts one round of waiting.
//
// Each share leaves 64 KB of sums in device memory that another block reads. Modelled, `prompt` takes 11.3 us with shares
// of one step, 9.9 with two, 9.6 with four, and 10.7 in step 05.
//
// Small shapes have tiles of 64 x 64 or 16 x 16 whose teams of warps share the inner dimension, as before.
#include <cooperative_groups.h>

#include "tensor_core.cuh"

constexpr int THREADS = 256;
constexpr int DEPTH = 32;
constexpr int VECTOR = 8;  // f16 in 16 bytes

// A tile of c that a team of DOWN x ACROSS warps computes, each warp 16 HIGH x 16 WIDE elements of it.
template <int DOWN_, int ACROSS_, int HIGH_, int WIDE_>
struct Tile {
    static constexpr int ACROSS = ACROSS_;
    static constexpr int HIGH = HIGH_;
    static constexpr int WIDE = WIDE_;
    static constexpr int ROWS = 16 * HIGH * DOWN_;
    static constexpr int COLUMNS = 16 * WIDE * ACROSS;
    static constexpr int TEAM = 32 * DOWN_ * ACROSS;  // threads
    static constexpr int TEAMS = THREADS / TEAM;      // of a block
    static constexpr int PARTS = HIGH * 2 * WIDE;     // of a thread: 16 rows and 8 columns each, four elements a lane
    uint4 left[ROWS * DEPTH / VECTOR];
    uint4 right[DEPTH * COLUMNS / VECTOR];
};
using Small = Tile<1, 1, 1, 1>;   // 16 x 16
using Middle = Tile<2, 2, 2, 2>;  // 64 x 64
using Large = Tile<2, 4, 4, 2>;   // 128 x 128

struct Product {
    const __half* a;
    const __half* b;
    __half* c;
    int M;
    int N;
    int K;
};

// Adds to `sum` the steps from `begin` to `end` of the tile that begins at this row and column. All teams of a block
// call it with the same number of rounds, because they meet at the same barriers.
template <typename T>
__device__ void accumulate(const Product& x, int first_row, int first_column, int begin, int end, int rounds,
                           float (&sum)[T::PARTS][4]) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int member = threadIdx.x % T::TEAM;
    const int lane = threadIdx.x % 32;
    const int warp_row = member / 32 / T::ACROSS * 16 * T::HIGH;
    const int warp_column = member / 32 % T::ACROSS * 16 * T::WIDE;
    T* tiles = reinterpret_cast<T*>(memory) + threadIdx.x / T::TEAM * STAGES;

    // Starts to copy the tiles of a step; what lies beyond the edges becomes zeros, which add nothing.
    const auto stage = [&](int step) {
        T& to = tiles[(step - begin) % STAGES];
        const int first = step * DEPTH;
#pragma unroll
        for (int i = member; i < T::ROWS * DEPTH / VECTOR; i += T::TEAM) {
            const int row = i / (DEPTH / VECTOR);
            const int piece = i % (DEPTH / VECTOR);
            const int k = first + piece * VECTOR;
            const bool exists = first_row + row < x.M && k < x.K;
            copy_async(&to.left[place<DEPTH / VECTOR>(row, piece)],
                       exists ? x.a + size_t(first_row + row) * x.K + k : x.a, exists);
        }
#pragma unroll
        for (int i = member; i < DEPTH * T::COLUMNS / VECTOR; i += T::TEAM) {
            const int row = i / (T::COLUMNS / VECTOR);
            const int piece = i % (T::COLUMNS / VECTOR);
            const int column = first_column + piece * VECTOR;
            const bool exists = first + row < x.K && column < x.N;
            copy_async(&to.right[place<T::COLUMNS / VECTOR>(row, piece)],
                       exists ? x.b + size_t(first + row) * x.N + column : x.b, exists);
        }
    };

    __syncthreads();  // the tiles of an earlier call may still be read
    // A group of copies per step, empty past the end, so that the number of groups under way tells which step has
    // arrived.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s < end) stage(begin + s);
        commit_copies();
    }
    for (int step = begin; step < begin + rounds; ++step) {
        wait_for_copies<STAGES - 2>();
        // Now the step's tiles are whole for all threads of the team, and none of them still reads the tiles that the
        // next copies replace.
        if (T::TEAM == 32) {
            __syncwarp();
        } else {
            __syncthreads();
        }
        if (step + STAGES - 1 < end) stage(step + STAGES - 1);
        commit_copies();
        if (step >= end) continue;

        const T& current = tiles[(step - begin) % STAGES];
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned rows[T::HIGH][4];
            unsigned columns[T::WIDE][4];
#pragma unroll
            for (int i = 0; i < T::HIGH; ++i) {
                const int at = place<DEPTH / VECTOR>(warp_row + 16 * i + lane % 16, k / VECTOR + lane / 16);
                load_matrices(rows[i], &current.left[at]);
            }
#pragma unroll
            for (int j = 0; j < T::WIDE; ++j) {
                const int at =
                    place<T::COLUMNS / VECTOR>(k + lane % 16, warp_column / VECTOR + 2 * j + lane / 16);
                load_matrices_transposed(columns[j], &current.right[at]);
            }
#pragma unroll
            for (int i = 0; i < T::HIGH; ++i) {
#pragma unroll
                for (int j = 0; j < 2 * T::WIDE; ++j) {
                    multiply_add(sum[i * 2 * T::WIDE + j], rows[i], columns[j / 2][j % 2 * 2],
                                 columns[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }
}

template <typename T>
__device__ void clear(float (&sum)[T::PARTS][4]) {
#pragma unroll
    for (int p = 0; p < T::PARTS; ++p) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[p][e] = 0.0f;
    }
}

template <typename T>
__device__ void add(float (&sum)[T::PARTS][4], int part, float4 more) {
    sum[part][0] += more.x;
    sum[part][1] += more.y;
    sum[part][2] += more.z;
    sum[part][3] += more.w;
}

__device__ float4 whole(const float (&part)[4]) { return make_float4(part[0], part[1], part[2], part[3]); }

template <typename T>
__device__ void write(const Product& x, int first_row, int first_column, const float (&sum)[T::PARTS][4]) {
    const int member = threadIdx.x % T::TEAM;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < T::PARTS; ++p) {
        const int row =
            first_row + member / 32 / T::ACROSS * 16 * T::HIGH + p / (2 * T::WIDE) * 16 + lane / 4;
        const int column =
            first_column + member / 32 % T::ACROSS * 16 * T::WIDE + p % (2 * T::WIDE) * 8 + lane % 4 * 2;
        // N is even, so a pair is inside as a whole.
        if (column >= x.N) continue;
        if (row < x.M) {
            *reinterpret_cast<__half2*>(x.c + size_t(row) * x.N + column) =
                __floats2half2_rn(sum[p][0], sum[p][1]);
        }
        if (row + 8 < x.M) {
            *reinterpret_cast<__half2*>(x.c + size_t(row + 8) * x.N + column) =
                __floats2half2_rn(sum[p][2], sum[p][3]);
        }
    }
}

// Tiles that each belong to one block, whose teams share the inner dimension.
template <typename T>
__device__ void multiply_tiles(const Product& x) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int across = (x.N + T::COLUMNS - 1) / T::COLUMNS;
    const int tiles = across * ((x.M + T::ROWS - 1) / T::ROWS);
    const int steps = (x.K + DEPTH - 1) / DEPTH;
    const int rounds = (steps + T::TEAMS - 1) / T::TEAMS;
    const int team = threadIdx.x / T::TEAM;
    const int member = threadIdx.x % T::TEAM;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_row = tile / across * T::ROWS;
        const int first_column = tile % across * T::COLUMNS;
        float sum[T::PARTS][4];
        clear<T>(sum);
        const int begin = team * rounds;
        accumulate<T>(x, first_row, first_column, begin, min(begin + rounds, steps), rounds, sum);

        // The first team adds the sums of the others to its own.
        __syncthreads();  // the tiles may still be read
        float4* others = reinterpret_cast<float4*>(memory);
        if (team > 0) {
#pragma unroll
            for (int p = 0; p < T::PARTS; ++p) {
                others[((team - 1) * T::PARTS + p) * T::TEAM + member] = whole(sum[p]);
            }
        }
        __syncthreads();
        if (team > 0) continue;
#pragma unroll
        for (int t = 0; t < T::TEAMS - 1; ++t) {
#pragma unroll
            for (int p = 0; p < T::PARTS; ++p) add<T>(sum, p, others[(t * T::PARTS + p) * T::TEAM + member]);
        }
        write<T>(x, first_row, first_column, sum);
    }
}

// Whole tiles in rounds, one for each block. The steps of the tiles that would make an incomplete round are cut into
// equal shares.
__device__ void multiply_shares(const Product& x, float4* partial) {
    const int across = (x.N + Large::COLUMNS - 1) / Large::COLUMNS;
    const int tiles = across * ((x.M + Large::ROWS - 1) / Large::ROWS);
    const int blocks = gridDim.x;
    const int whole_tiles = tiles / blocks * blocks;
    const int steps = (x.K + DEPTH - 1) / DEPTH;
    const auto row = [&](int tile) { return tile / across * Large::ROWS; };
    const auto column = [&](int tile) { return tile % across * Large::COLUMNS; };
    const auto slot = [&](int block, int part) -> float4& {
        return partial[(size_t(block) * Large::PARTS + part) * THREADS + threadIdx.x];
    };

    float sum[Large::PARTS][4];
    for (int tile = blockIdx.x; tile < whole_tiles; tile += blocks) {
        clear<Large>(sum);
        accumulate<Large>(x, row(tile), column(tile), 0, steps, steps, sum);
        write<Large>(x, row(tile), column(tile), sum);
    }
    if (whole_tiles == tiles) return;

    const int all = (tiles - whole_tiles) * steps;
    const int share = max(SHARE, (all + blocks - 1) / blocks);
    const int last = min((blockIdx.x + 1) * share, all);
    int begun = -1;  // the tile that this block began and others go on with
    for (int next = blockIdx.x * share; next < last;) {
        const int tile = whole_tiles + next / steps;
        const int begin = next % steps;
        const int end = min(steps, begin + last - next);
        clear<Large>(sum);
        accumulate<Large>(x, row(tile), column(tile), begin, end, end - begin, sum);
        if (begin > 0) {
#pragma unroll
            for (int p = 0; p < Large::PARTS; ++p) slot(blockIdx.x, p) = whole(sum[p]);
        } else if (end == steps) {
            write<Large>(x, row(tile), column(tile), sum);
        } else {
            begun = tile;
        }
        next += end - begin;
    }
    cooperative_groups::this_grid().sync();
    if (begun < 0) return;
    const int end = (begun + 1 - whole_tiles) * steps;
    for (int block = blockIdx.x + 1; block * share < end; ++block) {
#pragma unroll
        for (int p = 0; p < Large::PARTS; ++p) add<Large>(sum, p, slot(block, p));
    }
    write<Large>(x, row(begun), column(begun), sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, float4* partial,
         int M, int N, int K) {
    const Product product = {a, b, c, M, N, K};
    if (M > 64 && (M + 127) / 128 * ((N + 127) / 128) >= LARGE_FROM) {
        multiply_shares(product, partial);
    } else if (M > 16) {
        multiply_tiles<Middle>(product);
    } else {
        multiply_tiles<Small>(product);
    }
}
