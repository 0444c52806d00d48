/*---
[idea]
title = "keys persist in the L2 cache"
hypothesis = """
Every tile of query rows reads all keys of its head again. If other traffic evicted them in between, keys \
that persist would come from DRAM once. The blocks of one head run side by side, which keeps its keys in the \
cache in any case, so that little is to be gained. PERSIST = 0 turns the window off."""
gain = [0.99, 1.05]

[step]
phase = "tensor"
sweep = ["PERSIST"]

[[launch]]
kernel = "attention_split"
grid = [
  "cdiv(S, 16) * B * H < SM_COUNT ? 4 * cdiv(S, 16) : cdiv(S, 16 * WARPS)",
  "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, (cdiv(S, 16) * B * H < SM_COUNT ? cdiv(S, 16) : cdiv(S, 16 * WARPS)) * B * H))",
  "B * H",
]
block = ["cdiv(S, 16) * B * H < SM_COUNT ? 32 : 32 * WARPS"]
shared = "STAGES * TILE * D * 4 + 16 * WARPS * D * 2"
l2_persist = { buffer = "k", bytes = "PERSIST * B * H * S * D * 2" }
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, (cdiv(S, 16) * B * H < SM_COUNT ? cdiv(S, 16) : cdiv(S, 16 * WARPS)) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = ["B * H * S", "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, (cdiv(S, 16) * B * H < SM_COUNT ? cdiv(S, 16) : cdiv(S, 16 * WARPS)) * B * H))", "D"]

[workspace.part_ml]
dtype = "f32"
shape = ["B * H * S", "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, (cdiv(S, 16) * B * H < SM_COUNT ? cdiv(S, 16) : cdiv(S, 16 * WARPS)) * B * H))", "2"]

[tunables.WARPS]
value = 4
choices = [2, 4]
[tunables.STAGES]
value = 2
choices = [2, 3]
[tunables.TILE]
value = 16
choices = [16, 32, 64]
[tunables.PERSIST]
value = 1
choices = [0, 1]
[tunables.CTAS_PER_SM]
value = 4
choices = [4, 8]
---*/
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int BAND = 16;         // query rows of a warp
constexpr int VECTOR = 8;        // f16 elements in 16 bytes
constexpr int STRIDE = D;
constexpr int MOST_SLICES = 16;  // a block of the fuse kernel has a warp for each
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;
// Weights are computed 2^15 times too large, which their mass takes out again: f16 then holds the
// small ones as normal numbers, and the largest still fits.
constexpr float LIFT = 15.0f;

// Four 8 x 8 matrices of f16: lane i gives the address of row i % 8 of matrix i / 8, and receives of
// each matrix the elements (lane / 4, 2 (lane % 4)) and the next.
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

// sum (16 x 8, f32) += a (16 x 16, f16) b (16 x 8, f16). A lane holds of `sum` the columns
// 2 (lane % 4) and the next, in row lane / 4 and in row lane / 4 + 8.
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

__device__ float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
    return x;
}
__device__ float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
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

// 2 to the power of x in one instruction: exp2f adds two that keep subnormal results, which f16 drops.
__device__ float exp2_fast(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Where element `column` of row `row` lies in a tile. A row is eight pieces of 16 bytes and as long as
// the banks are wide; piece p of row r is stored in place p XOR r % 8. So the same piece of eight
// neighbouring rows lies on different banks, without padding. Copies and loads both ask here.
__device__ int place(int row, int column) {
    return row * STRIDE + ((column / VECTOR ^ row % 8) * VECTOR);
}

// Starts to copy WIDTH channels of rows [first, first + TILE) of `from` with the THREADS threads of the
// block; rows past `last` become zeros.
template <int WIDTH, int THREADS>
__device__ void stage(__half* tile, const __half* from, int first, int last) {
    constexpr int PIECES = TILE * WIDTH / VECTOR;
#pragma unroll
    for (int i = 0; i < (PIECES + THREADS - 1) / THREADS; ++i) {
        const int piece = i * THREADS + threadIdx.x;
        if (PIECES % THREADS != 0 && piece >= PIECES) break;
        const int row = piece * VECTOR / WIDTH;
        const int column = piece * VECTOR % WIDTH;
        const __half* source = from + size_t(min(first + row, last - 1)) * D + column;
        copy_async(tile + place(row, column), source, first + row < last);
    }
}

struct Tiles {
    __half keys[TILE * STRIDE];
    __half values[TILE * STRIDE];
};

// COUNT warps with 16 rows each against the keys [begin, end), for WIDTH channels of v from `channel` on.
template <int WIDTH, int COUNT>
__device__ void attend(const __half* q, const __half* k, const __half* v, __half* o, float* part_o,
                       float2* part_ml, Tiles* stages, int first_row, int channel, int begin, int end,
                       int S, float scale) {
    constexpr int THREADS = 32 * COUNT;
    const int lane = threadIdx.x % 32;
    const int upper = first_row + threadIdx.x / 32 * BAND + lane / 4;  // this lane's rows
    const int lower = upper + 8;
    const int column = 2 * (lane % 4);

    // Behind the tiles each warp has room for its 16 rows of q, and later of the outputs, which pass through
    // it in pieces of 16 bytes.
    __half* const own = reinterpret_cast<__half*>(&stages[STAGES]) + threadIdx.x / 32 * BAND * STRIDE;
#pragma unroll
    for (int i = 0; i < BAND * D / VECTOR / 32; ++i) {
        const int row = i * 4 + lane / 8;
        const int position = first_row + threadIdx.x / 32 * BAND + row;
        copy_async(own + place(row, lane % 8 * VECTOR), q + size_t(min(position, S - 1)) * D + lane % 8 * VECTOR,
                   true);
    }
    commit_copies();

    // The first STAGES - 1 tiles are under way before anything else; a group for each, even if empty, so
    // that all groups but the youngest belong to tiles that are needed sooner.
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s * TILE < end) {
            stage<D, THREADS>(stages[s].keys, k, begin + s * TILE, end);
            commit_copies();
            stage<WIDTH, THREADS>(stages[s].values, v + channel, begin + s * TILE, end);
        } else {
            commit_copies();
        }
        commit_copies();
    }

    // Only this warp's own rows, so that a barrier of the warp suffices.
    wait_for_copies<2 * (STAGES - 1)>();
    __syncwarp();
    unsigned query[D / 16][4];
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        load_matrices(query[d / 16], own + place(lane % 16, d + lane / 16 * 8));
    }

    float total[WIDTH / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY};  // of the upper and the lower row
    float mass[2] = {};                         // of the columns that this lane holds
    const float factor = scale * LOG2_E;  // to units of log2, so that a weight is a bare exp2
    int current = 0;
    for (int first = begin; first < end; first += TILE) {
        wait_for_copies<2 * (STAGES - 1) - 1>();  // only the keys are needed now
        __syncthreads();  // they are there for all warps, which have finished with the last tile
        const int ahead = first + (STAGES - 1) * TILE;
        Tiles& free = stages[(current + STAGES - 1) % STAGES];
        if (ahead < end) stage<D, THREADS>(free.keys, k, ahead, end);
        commit_copies();
        if (ahead < end) stage<WIDTH, THREADS>(free.values, v + channel, ahead, end);
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

        if (first + TILE > end) {  // only the last tile of a slice has keys that do not exist
#pragma unroll
            for (int key = 0; key < TILE; key += 8) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (first + key + column + i % 2 >= end) score[key / 8][i] = -INFINITY;
                }
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
        for (int n = 0; n < WIDTH / 8; ++n) {
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
            for (int n = 0; n < WIDTH; n += 16) {
                unsigned b[4];
                load_matrices_transposed(b, tiles.values + place(key + lane % 16, n + lane / 16 * 8));
                multiply_add(total[n / 8], weight, b[0], b[1]);
                multiply_add(total[n / 8 + 1], weight, b[2], b[3]);
            }
        }
    }

    const bool whole = gridDim.y == 1 && WIDTH == D;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float slice_mass = quad_sum(mass[row]);
        const int position = row == 0 ? upper : lower;
        if (whole) {
            const float inverse = 1.0f / slice_mass;
            const int at = lane / 4 + 8 * row;
#pragma unroll
            for (int n = 0; n < WIDTH / 8; ++n) {
                *reinterpret_cast<__half2*>(own + place(at, 8 * n) + column) =
                    __floats2half2_rn(total[n][2 * row] * inverse, total[n][2 * row + 1] * inverse);
            }
            continue;
        }
        if (position >= S) continue;
        if (gridDim.y == 1) {
            const float inverse = 1.0f / slice_mass;
            __half* to = o + size_t(position) * D + channel + column;
#pragma unroll
            for (int n = 0; n < WIDTH / 8; ++n) {
                *reinterpret_cast<__half2*>(to + 8 * n) =
                    __floats2half2_rn(total[n][2 * row] * inverse, total[n][2 * row + 1] * inverse);
            }
            continue;
        }
        const size_t part = size_t(position) * gridDim.y + blockIdx.y;
        float* to = part_o + part * D + channel + column;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
            *reinterpret_cast<float2*>(to + 8 * n) =
                make_float2(total[n][2 * row], total[n][2 * row + 1]);
        }
        if (channel == 0 && column == 0) part_ml[part] = make_float2(largest[row] * factor, slice_mass);
    }
    if (!whole) return;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BAND * D / VECTOR / 32; ++i) {
        const int row = i * 4 + lane / 8;
        const int position = first_row + threadIdx.x / 32 * BAND + row;
        if (position >= S) break;
        *reinterpret_cast<uint4*>(o + size_t(position) * D + lane % 8 * VECTOR) =
            *reinterpret_cast<const uint4*>(own + place(row, lane % 8 * VECTOR));
    }
}

// Block (x, y, z): WARPS times 16 rows of head z against slice y of the keys. A block of one warp belongs
// to a grid that is four times as wide as there are bands of 16 rows, and takes one band and a quarter of
// the channels. If the slice is all keys, the block writes the output.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int S, float scale) {
    extern __shared__ __align__(128) unsigned char bytes[];
    Tiles* const stages = reinterpret_cast<Tiles*>(bytes);
    const size_t head = size_t(blockIdx.z) * S;
    const size_t part = head * gridDim.y;
    q += head * D, k += head * D, v += head * D, o += head * D;
    part_o += part * D, part_ml += part;
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);
    if (blockDim.x == 32) {
        const int bands = (S + BAND - 1) / BAND;
        const int first_row = blockIdx.x % bands * BAND;
        const int channel = blockIdx.x / bands * (D / 4);
        attend<D / 4, 1>(q, k, v, o, part_o, part_ml, stages, first_row, channel, begin, end, S, scale);
    } else {
        const int first_row = blockIdx.x * WARPS * BAND;
        attend<D, WARPS>(q, k, v, o, part_o, part_ml, stages, first_row, 0, begin, end, S, scale);
    }
}

// Block = one row, warp = one slice, lane = two channels: each warp brings its slice to the largest of
// the slices' maxima, and the first adds up.
extern "C" __global__ void __launch_bounds__(32 * MOST_SLICES)
    attention_fuse(const float2* __restrict__ part_o, const float2* __restrict__ part_ml,
                   __half2* __restrict__ o) {
    __shared__ float2 scaled[MOST_SLICES][D / 2];
    const int slices = blockDim.y;
    if (slices == 1) return;  // the output is already there
    const int lane = threadIdx.x;
    const int slice = threadIdx.y;
    const size_t first = size_t(blockIdx.x) * slices;
    const float2 sum = part_o[(first + slice) * (D / 2) + lane];

    // Lane = slice: every warp finds the common scale and mass for itself.
    const float2 ml = lane < slices ? part_ml[first + lane] : make_float2(-INFINITY, 0.0f);
    const float factor = exp2f(ml.x - warp_max(ml.x));
    const float mass = warp_sum(factor * ml.y);
    const float own = __shfl_sync(ALL, factor, slice) / mass;
    scaled[slice][lane] = make_float2(own * sum.x, own * sum.y);
    __syncthreads();
    if (slice > 0) return;

    float2 total = make_float2(0.0f, 0.0f);
    for (int s = 0; s < slices; ++s) {
        total.x += scaled[s][lane].x;
        total.y += scaled[s][lane].y;
    }
    o[size_t(blockIdx.x) * (D / 2) + lane] = __floats2half2_rn(total.x, total.y);
}
