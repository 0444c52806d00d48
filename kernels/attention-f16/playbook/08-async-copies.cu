/*---
[idea]
title = "fetch the next tile while this one is multiplied"
hypothesis = """
A lone warp that loads a tile, stores it to shared memory and only then multiplies waits for memory \
once per tile. Asynchronous copies bring the next tile straight into a second buffer meanwhile, \
without passing through registers."""
gain = [1.1, 1.6]

[step]
phase = "tensor"
sweep = ["TILE"]

[[launch]]
kernel = "attention_split"
grid = [
  "cdiv(S, 16) * (4 - 3 * min(1, cdiv(S, 16) * B * H / SM_COUNT))",
  "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, 16) * B * H))",
  "B * H",
]
block = [32]
args = ["q", "k", "v", "o", "part_o", "part_ml", "S", "scale"]

[[launch]]
kernel = "attention_fuse"
grid = ["B * H * S"]
block = [32, "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, 16) * B * H))"]
args = ["part_o", "part_ml", "o"]

[workspace.part_o]
dtype = "f32"
shape = [
  "B * H * S",
  "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, 16) * B * H))",
  "D",
]

[workspace.part_ml]
dtype = "f32"
shape = [
  "B * H * S",
  "min(min(16, cdiv(S, 16)), cdiv(CTAS_PER_SM * SM_COUNT, cdiv(S, 16) * B * H))",
  "2",
]

[tunables.TILE]
value = 32
choices = [16, 32]
[tunables.CTAS_PER_SM]
value = 4
choices = [4, 8]
---*/
#include <cuda_fp16.h>

constexpr int D = 64;
constexpr int ROWS = 16;         // query rows of a block, which is one warp
constexpr int STRIDE = D + 8;    // padded: the eight rows of a matrix load start on different banks
constexpr int VECTOR = 8;        // f16 elements in 16 bytes
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

// Starts to copy WIDTH channels of rows [first, first + TILE) of `from`; rows past `last` become
// zeros.
template <int WIDTH>
__device__ void stage(__half (*tile)[STRIDE], const __half* from, int first, int last) {
#pragma unroll
    for (int i = 0; i < TILE * WIDTH / VECTOR / 32; ++i) {
        const int at = (i * 32 + threadIdx.x) * VECTOR;
        const int row = first + at / WIDTH;
        const __half* source = from + size_t(min(row, last - 1)) * D + at % WIDTH;
        copy_async(&tile[at / WIDTH][at % WIDTH], source, row < last);
    }
}

struct Tiles {
    __half keys[TILE][STRIDE];
    __half values[TILE][STRIDE];
};

// 16 rows against the keys [begin, end), for WIDTH channels of v from `channel` on.
template <int WIDTH>
__device__ void attend(const __half* q, const __half* k, const __half* v, __half* o, float* part_o,
                       float2* part_ml, Tiles (&buffers)[2], int first_row, int channel, int begin,
                       int end, int S, float scale) {
    const int lane = threadIdx.x;
    const int upper = first_row + lane / 4;  // this lane's rows of every product
    const int lower = upper + 8;
    const int column = 2 * (lane % 4);

    unsigned query[D / 16][4];
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        const __half* a = q + size_t(min(upper, S - 1)) * D + d + column;
        const __half* b = q + size_t(min(lower, S - 1)) * D + d + column;
        query[d / 16][0] = *reinterpret_cast<const unsigned*>(a);
        query[d / 16][1] = *reinterpret_cast<const unsigned*>(b);
        query[d / 16][2] = *reinterpret_cast<const unsigned*>(a + 8);
        query[d / 16][3] = *reinterpret_cast<const unsigned*>(b + 8);
    }

    float total[WIDTH / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY};  // of the upper and the lower row
    float mass[2] = {};                         // of the columns that this lane holds
    if (begin < end) {
        stage<D>(buffers[0].keys, k, begin, end);
        stage<WIDTH>(buffers[0].values, v + channel, begin, end);
    }
    commit_copies();
    int current = 0;
    for (int first = begin; first < end; first += TILE, current ^= 1) {
        __syncwarp();  // everyone has finished with the tile that the next one replaces
        if (first + TILE < end) {
            stage<D>(buffers[current ^ 1].keys, k, first + TILE, end);
            stage<WIDTH>(buffers[current ^ 1].values, v + channel, first + TILE, end);
        }
        commit_copies();  // a group even if empty, so that all but the last are this tile's
        wait_for_copies<1>();
        __syncwarp();
        const Tiles& tiles = buffers[current];

        float score[TILE / 8][4] = {};
#pragma unroll
        for (int key = 0; key < TILE; key += 8) {
#pragma unroll
            for (int d = 0; d < D; d += 32) {
                unsigned b[4];
                load_matrices(b, &tiles.keys[key + lane % 8][d + lane / 8 * 8]);
                multiply_add(score[key / 8], query[d / 16], b[0], b[1]);
                multiply_add(score[key / 8], query[d / 16 + 1], b[2], b[3]);
            }
        }

        float grown[2] = {largest[0], largest[1]};
#pragma unroll
        for (int key = 0; key < TILE; key += 8) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // In units of log2, so that a weight is a bare exp2.
                const bool exists = first + key + column + i % 2 < end;
                float& s = score[key / 8][i];
                s = exists ? s * (scale * LOG2_E) : -INFINITY;
                grown[i / 2] = fmaxf(grown[i / 2], s);
            }
        }
        float keep[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            grown[row] = quad_max(grown[row]);
            keep[row] = exp2f(largest[row] - grown[row]);
            largest[row] = grown[row];
            mass[row] *= keep[row];
        }
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) total[n][i] *= keep[i / 2];
        }

#pragma unroll
        for (int key = 0; key < TILE; key += 16) {
            unsigned weight[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float(&s)[4] = score[key / 8 + half];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    s[i] = exp2f(s[i] - largest[i / 2] + LIFT);
                    mass[i / 2] += s[i];
                }
                weight[2 * half] = pack(s[0], s[1]);
                weight[2 * half + 1] = pack(s[2], s[3]);
            }
#pragma unroll
            for (int n = 0; n < WIDTH; n += 16) {
                unsigned b[4];
                load_matrices_transposed(b, &tiles.values[key + lane % 16][n + lane / 16 * 8]);
                multiply_add(total[n / 8], weight, b[0], b[1]);
                multiply_add(total[n / 8 + 1], weight, b[2], b[3]);
            }
        }
    }

#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float slice_mass = quad_sum(mass[row]);
        const int position = row == 0 ? upper : lower;
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
        if (channel == 0 && column == 0) part_ml[part] = make_float2(largest[row], slice_mass);
    }
}

// Block (x, y, z): 16 rows of head z against slice y of the keys. A grid that is four times as wide
// as there are tiles of rows gives each of four blocks a quarter of the channels. If the slice is all
// keys, the block writes the output.
extern "C" __global__ void __launch_bounds__(32)
    attention_split(const __half* __restrict__ q, const __half* __restrict__ k,
                    const __half* __restrict__ v, __half* __restrict__ o,
                    float* __restrict__ part_o, float2* __restrict__ part_ml, int S, float scale) {
    __shared__ __align__(16) Tiles buffers[2];
    const size_t head = size_t(blockIdx.z) * S;
    const size_t part = head * gridDim.y;
    q += head * D, k += head * D, v += head * D, o += head * D;
    part_o += part * D, part_ml += part;
    const int slice = (S + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * slice;
    const int end = min(begin + slice, S);
    const int row_tiles = (S + ROWS - 1) / ROWS;
    const int first_row = blockIdx.x % row_tiles * ROWS;
    if (gridDim.x == row_tiles) {
        attend<D>(q, k, v, o, part_o, part_ml, buffers, first_row, 0, begin, end, S, scale);
    } else {
        const int channel = blockIdx.x / row_tiles * (D / 4);
        attend<D / 4>(q, k, v, o, part_o, part_ml, buffers, first_row, channel, begin, end, S, scale);
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
