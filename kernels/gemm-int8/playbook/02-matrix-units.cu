/*---
[idea]
title = "multiply 16 x 8 x 32 on the tensor cores"
hypothesis = """
A matrix instruction on bytes does 4,096 multiply-adds of a warp at once, 32 for each of dp4a's. Rows of \
b are the columns that the instruction wants, so that both operands come by ldmatrix without a \
transposition. A warp owns 32 x 32 sums, and the next tile is loaded while this one is multiplied."""
gain = [2.0, 6.0]

[step]
phase = "tensor"
sweep = ["DOWN", "ACROSS"]

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 32 * ACROSS)", "cdiv(M, 32 * DOWN)"]
block = ["32 * DOWN * ACROSS"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.DOWN]
value = 1
choices = [1, 2]
[tunables.ACROSS]
value = 2
choices = [1, 2]
---*/
// DOWN x ACROSS warps, each with 32 x 32 outputs.
constexpr int ROWS = 32 * DOWN;       // of c in a block
constexpr int COLUMNS = 32 * ACROSS;
constexpr int THREADS = 32 * DOWN * ACROSS;
constexpr int DEPTH = 64;             // bytes of K staged at once
constexpr int VECTOR = 16;            // bytes of an access
constexpr int STRIDE = DEPTH + 16;    // padded: the eight rows of a matrix load start on different banks
constexpr int A_PIECES = ROWS * DEPTH / VECTOR / THREADS;  // 16-byte pieces for each thread to stage
constexpr int B_PIECES = COLUMNS * DEPTH / VECTOR / THREADS;

// Four 8 x 16 matrices of bytes: lane i gives the address of row i % 8 of matrix i / 8, and receives of
// each matrix the four bytes from 4 (lane % 4) on in row lane / 4.
__device__ void load_matrices(unsigned (&to)[4], const signed char* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum (16 x 8, i32) += a (16 x 32, i8) b (32 x 8, i8). A lane holds of `sum` the columns 2 (lane % 4)
// and the next, in row lane / 4 and in row lane / 4 + 8.
__device__ void multiply_add(int (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int M,
         int N, int K) {
    __shared__ __align__(16) signed char left[ROWS][STRIDE];
    __shared__ __align__(16) signed char right[COLUMNS][STRIDE];
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / ACROSS * 32;
    const int warp_column = threadIdx.x / 32 % ACROSS * 32;
    const int first_row = blockIdx.y * ROWS;
    const int first_column = blockIdx.x * COLUMNS;

    // Loads this thread's pieces of the tiles that begin at `first`; beyond the edges they are zeros,
    // which add nothing.
    uint4 left_pieces[A_PIECES];
    uint4 right_pieces[B_PIECES];
    const auto fetch = [&](int first) {
        const uint4 zeros = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < A_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            const int row = first_row + piece / (DEPTH / VECTOR);
            const int k = first + piece % (DEPTH / VECTOR) * VECTOR;
            left_pieces[i] =
                row < M && k < K ? *reinterpret_cast<const uint4*>(a + size_t(row) * K + k) : zeros;
        }
#pragma unroll
        for (int i = 0; i < B_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            const int column = first_column + piece / (DEPTH / VECTOR);
            const int k = first + piece % (DEPTH / VECTOR) * VECTOR;
            right_pieces[i] =
                column < N && k < K ? *reinterpret_cast<const uint4*>(b + size_t(column) * K + k) : zeros;
        }
    };

    int sum[2][4][4] = {};  // 16 rows, 8 columns, the elements of a lane
    fetch(0);
    for (int first = 0; first < K; first += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < A_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(
                &left[piece / (DEPTH / VECTOR)][piece % (DEPTH / VECTOR) * VECTOR]) = left_pieces[i];
        }
#pragma unroll
        for (int i = 0; i < B_PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(
                &right[piece / (DEPTH / VECTOR)][piece % (DEPTH / VECTOR) * VECTOR]) = right_pieces[i];
        }
        __syncthreads();
        fetch(first + DEPTH);  // under way while this tile is multiplied

#pragma unroll
        for (int k = 0; k < DEPTH; k += 32) {
            unsigned rows[2][4];
            unsigned columns[2][4];  // two pairs of eight columns, each with its two halves of K
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(rows[i], &left[warp_row + 16 * i + lane % 16][k + lane / 16 * 16]);
                load_matrices(columns[i], &right[warp_column + 16 * i + lane / 16 * 8 + lane % 8]
                                                [k + lane / 8 % 2 * 16]);
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

#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = first_row + warp_row + 16 * i + lane / 4 + e / 2 * 8;
                const int column = first_column + warp_column + 8 * j + lane % 4 * 2 + e % 2;
                if (row < M && column < N) c[size_t(row) * N + column] = sum[i][j][e];
            }
        }
    }
}
