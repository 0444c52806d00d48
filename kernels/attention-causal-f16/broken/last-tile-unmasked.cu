/*---
[expect]
verdict = "incorrect_output"

[[launch]]
kernel = "attention"
grid = ["B * G * R", "cdiv(S, 16 * WARPS)"]
block = ["32 * WARPS"]
shared = "STAGES * 2 * TILE * D * 2 + 16 * WARPS * D * 2"
args = ["q", "k", "v", "o", "R", "S", "scale"]

[tunables.WARPS]
value = 4
choices = [2, 4]
[tunables.TILE]
value = 64
choices = [32, 64]
[tunables.STAGES]
value = 2
choices = [2, 3]
---*/
// Wrong: the mask compares the first key of a tile, so that the tile which the diagonal crosses stays unmasked.
#include <cuda_fp16.h>

constexpr int D = 128;
constexpr int BAND = 16;   // query rows of a warp
constexpr int VECTOR = 8;  // f16 elements in 16 bytes
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;
// Weights are computed 2^15 times too large, which their mass takes out again: f16 then holds the small ones as
// normal numbers, and the largest still fits.
constexpr float LIFT = 15.0f;

// Four 8 x 8 matrices of f16: lane i gives the address of row i % 8 of matrix i / 8, and receives of each matrix
// the elements (lane / 4, 2 (lane % 4)) and the next.
__device__ void load_matrices(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ void load_matrices_transposed(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum (16 x 8, f32) += a (16 x 16, f16) b (16 x 8, f16). A lane holds of `sum` the columns 2 (lane % 4) and the next,
// in row lane / 4 and in row lane / 4 + 8.
__device__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ unsigned pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// The largest, or the sum, over the four lanes that share a row.
__device__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL, x, 2));
}
__device__ float quad_sum(float x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return x + __shfl_xor_sync(ALL, x, 2);
}

// 2 to the power of x in one instruction: exp2f adds two that keep subnormal results, which f16 drops.
__device__ float exp2_fast(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Starts a copy of 16 bytes to shared memory; where the source does not exist, of zeros.
__device__ void copy_async(__half* to, const __half* from, bool exists) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0)
                 : "memory");
}

// Ends a group: all copies this thread started since the last one.
__device__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING groups of this thread are under way.
template <int PENDING>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Where element `column` of row `row` lies in a tile. A row is 16 pieces of 16 bytes; piece p of row r is stored in
// place p XOR r % 8, so that the same piece of eight neighbouring rows lies on different banks.
__device__ int place(int row, int column) {
    return row * D + ((column / VECTOR ^ row % 8) * VECTOR);
}

// Starts to copy rows [first, first + TILE) of `from`; rows from `last` on become zeros.
__device__ void stage(__half* tile, const __half* from, int first, int last) {
    constexpr int THREADS = 32 * WARPS;
#pragma unroll
    for (int i = 0; i < TILE * D / VECTOR / THREADS; ++i) {
        const int piece = i * THREADS + threadIdx.x;
        const int row = piece * VECTOR / D;
        const int column = piece * VECTOR % D;
        copy_async(tile + place(row, column), from + size_t(min(first + row, last - 1)) * D + column,
                   first + row < last);
    }
}

struct Tiles {
    __half keys[TILE * D];
    __half values[TILE * D];
};

// Block (x, y): 16 WARPS rows of query head x, from the end of the sequence on, against the keys up to its last row.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, int R, int S, float scale) {
    extern __shared__ uint4 shared[];
    Tiles* const stages = reinterpret_cast<Tiles*>(shared);
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int column = 2 * (lane % 4);
    const int tile = gridDim.y - 1 - blockIdx.y;  // the longest rows first
    const int first_row = (tile * WARPS + warp) * BAND;
    const size_t head = blockIdx.x;
    q += head * S * D;
    o += head * S * D;
    k += head / R * S * D;  // R query heads in a row share a head of keys and values
    v += head / R * S * D;

    // Behind the tiles each warp has room for its 16 rows of q.
    __half* const own = reinterpret_cast<__half*>(stages + STAGES) + warp * BAND * D;
#pragma unroll
    for (int i = 0; i < BAND / 2; ++i) {
        const int row = i * 2 + lane / 16;
        copy_async(own + place(row, lane % 16 * VECTOR),
                   q + size_t(min(first_row + row, S - 1)) * D + lane % 16 * VECTOR, true);
    }
    commit_copies();

    // No row of this block sees a key behind its last row.
    const int end = min(tile * WARPS * BAND + WARPS * BAND, S);

    // The first STAGES - 1 tiles are under way before anything else; a group for each, even if empty, so that all
    // groups but the youngest belong to tiles that are needed sooner.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s * TILE < end) stage(stages[s].keys, k, s * TILE, end);
        commit_copies();
        if (s * TILE < end) stage(stages[s].values, v, s * TILE, end);
        commit_copies();
    }
    wait_for_copies<2 * (STAGES - 1)>();
    __syncwarp();  // only this warp's own rows
    unsigned query[D / 16][4];
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        load_matrices(query[d / 16], own + place(lane % 16, d + lane / 16 * 8));
    }

    // The positions of this lane's two rows: the last key that each may see.
    const int position[2] = {first_row + lane / 4, first_row + lane / 4 + 8};
    float total[D / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY};
    float mass[2] = {};                   // of the columns that this lane holds
    const float factor = scale * LOG2_E;  // to units of log2, so that a weight is a bare exp2
    int current = 0;
    for (int first = 0; first < end; first += TILE) {
        wait_for_copies<2 * (STAGES - 1) - 1>();  // only the keys are needed now
        __syncthreads();  // they are there for all warps, which have finished with the last tile
        const int ahead = first + (STAGES - 1) * TILE;
        Tiles& free = stages[(current + STAGES - 1) % STAGES];
        if (ahead < end) stage(free.keys, k, ahead, end);
        commit_copies();
        if (ahead < end) stage(free.values, v, ahead, end);
        commit_copies();
        const Tiles& tiles = stages[current];
        current = (current + 1) % STAGES;

        float score[TILE / 8][4] = {};
#pragma unroll
        for (int key = 0; key < TILE; key += 8) {
#pragma unroll
            for (int d = 0; d < D; d += 32) {
                unsigned b[4];
                load_matrices(b, tiles.keys + place(key + lane % 8, d + lane / 8 * 8));
                multiply_add(score[key / 8], query[d / 16], b[0], b[1]);
                multiply_add(score[key / 8], query[d / 16 + 1], b[2], b[3]);
            }
        }
#pragma unroll
        for (int key = 0; key < TILE; key += 8) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (first > position[i / 2]) score[key / 8][i] = -INFINITY;
            }
        }

        float grown[2] = {largest[0], largest[1]};
#pragma unroll
        for (int key = 0; key < TILE; key += 8) {
#pragma unroll
            for (int i = 0; i < 4; ++i) grown[i / 2] = fmaxf(grown[i / 2], score[key / 8][i]);
        }
        float keep[2];
        float shift[2];  // the exponent of a weight is score * factor + shift: one instruction
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            grown[row] = quad_max(grown[row]);
            keep[row] = exp2_fast((largest[row] - grown[row]) * factor);
            shift[row] = LIFT - grown[row] * factor;
            largest[row] = grown[row];
            mass[row] *= keep[row];
        }
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) total[n][i] *= keep[i / 2];
        }

        wait_for_copies<2 * (STAGES - 1)>();  // now the values
        __syncthreads();
#pragma unroll
        for (int key = 0; key < TILE; key += 16) {
            unsigned weight[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float(&s)[4] = score[key / 8 + half];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    s[i] = exp2_fast(fmaf(s[i], factor, shift[i / 2]));
                    mass[i / 2] += s[i];
                }
                weight[2 * half] = pack(s[0], s[1]);
                weight[2 * half + 1] = pack(s[2], s[3]);
            }
#pragma unroll
            for (int n = 0; n < D; n += 16) {
                unsigned b[4];
                load_matrices_transposed(b, tiles.values + place(key + lane % 16, n + lane / 16 * 8));
                multiply_add(total[n / 8], weight, b[0], b[1]);
                multiply_add(total[n / 8 + 1], weight, b[2], b[3]);
            }
        }
    }

    // The outputs pass through the warp's own rows, so that they leave in pieces of 16 bytes.
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float inverse = 1.0f / quad_sum(mass[row]);
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            *reinterpret_cast<__half2*>(own + place(lane / 4 + 8 * row, 8 * n) + column) =
                __floats2half2_rn(total[n][2 * row] * inverse, total[n][2 * row + 1] * inverse);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BAND / 2; ++i) {
        const int row = i * 2 + lane / 16;
        if (first_row + row >= S) break;
        *reinterpret_cast<uint4*>(o + size_t(first_row + row) * D + lane % 16 * VECTOR) =
            *reinterpret_cast<const uint4*>(own + place(row, lane % 16 * VECTOR));
    }
}
