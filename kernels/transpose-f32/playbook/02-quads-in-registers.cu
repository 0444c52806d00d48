/*---
[idea]
title = "turn 4 x 4 elements in the registers of a thread, 16 bytes an access"
hypothesis = """
With one word per access a 32 x 32 tile takes 1,024 loads and as many stores, and half of the time \
goes into issuing them. A thread that reads four float4 of four neighbouring rows holds a 4 x 4 square, \
turns it in registers at no cost, and writes four float4: a quarter of the accesses, on the way through \
shared memory as well."""
gain = [1.0, 1.5]

[step]
phase = "memory"
sweep = ["SIDE"]

[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 4 * SIDE)", "cdiv(M, 4 * SIDE)"]
block = ["SIDE * SIDE"]
args = ["x", "y", "M", "N"]

[tunables.SIDE]
value = 8
choices = [8, 16]
---*/
// A block turns a tile of SIDE x SIDE squares of 4 x 4 elements. Thread t reads square (t / SIDE,
// t % SIDE) and writes square (t % SIDE, t / SIDE) of the tile turned: both walk along rows.
constexpr int TILE = 4 * SIDE;
// Rows of the turned tile are 16 bytes longer than the tile, which keeps float4 aligned and shifts
// each row by four banks.
constexpr int STRIDE = TILE + 4;

extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
    transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ __align__(16) float turned[TILE][STRIDE];
    const int first_column = blockIdx.x * TILE;
    const int first_row = blockIdx.y * TILE;
    const int slow = 4 * (threadIdx.x / SIDE);
    const int fast = 4 * (threadIdx.x % SIDE);

    float square[4][4];
    const int column = first_column + fast;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = first_row + slow + i;
        const float* from = x + size_t(row) * N + column;
        // Rows begin on a 16-byte boundary only where N is a multiple of four.
        if (N % 4 == 0 && row < M && column < N) {
            const float4 four = *reinterpret_cast<const float4*>(from);
            square[i][0] = four.x;
            square[i][1] = four.y;
            square[i][2] = four.z;
            square[i][3] = four.w;
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                square[i][j] = row < M && column + j < N ? from[j] : 0.0f;
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        *reinterpret_cast<float4*>(&turned[fast + j][slow]) =
            make_float4(square[0][j], square[1][j], square[2][j], square[3][j]);
    }
    __syncthreads();

    const int row = first_row + fast;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int target = first_column + slow + i;
        const float4 four = *reinterpret_cast<const float4*>(&turned[slow + i][fast]);
        float* to = y + size_t(target) * M + row;
        if (M % 4 == 0 && target < N && row < M) {
            *reinterpret_cast<float4*>(to) = four;
        } else if (target < N) {
            if (row < M) to[0] = four.x;
            if (row + 1 < M) to[1] = four.y;
            if (row + 2 < M) to[2] = four.z;
            if (row + 3 < M) to[3] = four.w;
        }
    }
}
