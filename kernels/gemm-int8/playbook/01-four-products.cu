/*---
[idea]
title = "four products at a time with dp4a"
hypothesis = """
The baseline unpacks every byte to an integer and multiplies one pair at a time. dp4a multiplies four \
packed pairs and adds them in one instruction, and packed words need a quarter of the shared loads."""
gain = [2.0, 4.0]

[step]
phase = "tensor"
sweep = ["WORDS"]

[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.WORDS]
value = 16
choices = [16, 32]
---*/
// WORDS: 4-byte words of K that are staged at once. K is a multiple of four words.
constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    gemm(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int M,
         int N, int K) {
    __shared__ int left[TILE][WORDS + 1];
    __shared__ int right[TILE][WORDS + 1];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int column = blockIdx.x * TILE + x;
    const int row = blockIdx.y * TILE + y;
    const int staged = blockIdx.x * TILE + y;  // the row of b that this thread stages
    const int words = K / 4;

    int sum = 0;
    for (int first = 0; first < words; first += WORDS) {
        __syncthreads();
#pragma unroll
        for (int i = x; i < WORDS; i += TILE) {
            const int w = first + i;
            left[y][i] = row < M && w < words
                             ? reinterpret_cast<const int*>(a)[size_t(row) * words + w]
                             : 0;
            right[y][i] = staged < N && w < words
                              ? reinterpret_cast<const int*>(b)[size_t(staged) * words + w]
                              : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < WORDS; ++k) sum = __dp4a(left[y][k], right[x][k], sum);
    }
    if (row < M && column < N) c[size_t(row) * N + column] = sum;
}
