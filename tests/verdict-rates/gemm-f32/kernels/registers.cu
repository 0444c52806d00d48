/*---
[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [8, 8]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.DEPTH]
value = 8
choices = [4, 8, 16]
---*/
// One thread computes two by two elements from tiles in shared memory.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[DEPTH][17];
    __shared__ float right[DEPTH][16];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int thread = y * 8 + x;
    const int top = blockIdx.y * 16;
    const int edge = blockIdx.x * 16;
    float sums[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    for (int begin = 0; begin < K; begin += DEPTH) {
        const int depth = min(DEPTH, K - begin);
        for (int flat = thread; flat < 16 * depth; flat += 64) {
            const int m = top + flat / depth;
            const int k = flat % depth;
            left[k][flat / depth] = m < M ? a[size_t(m) * K + begin + k] : 0.0f;
        }
        for (int flat = thread; flat < 16 * depth; flat += 64) {
            const int n = edge + flat % 16;
            right[flat / 16][flat % 16] = n < N ? b[size_t(begin + flat / 16) * N + n] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < depth; k += 1) {
            const float upper = left[k][2 * y];
            const float lower = left[k][2 * y + 1];
            const float first = right[k][2 * x];
            const float second = right[k][2 * x + 1];
            sums[0][0] += upper * first;
            sums[0][1] += upper * second;
            sums[1][0] += lower * first;
            sums[1][1] += lower * second;
        }
        __syncthreads();
    }
    for (int row = 0; row < 2; row += 1) {
        for (int column = 0; column < 2; column += 1) {
            const int m = top + 2 * y + row;
            const int n = edge + 2 * x + column;
            if (m < M && n < N) {
                /*@out*/ c[size_t(m) * N + n] = sums[row][column];
            }
        }
    }
}
