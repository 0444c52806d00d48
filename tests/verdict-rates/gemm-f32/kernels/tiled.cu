/*---
[[launch]]
kernel = "product"
grid = ["cdiv(N, TILE)", "cdiv(M, TILE)"]
block = ["TILE", "TILE"]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.TILE]
value = 16
choices = [8, 16]
---*/
// One block multiplies tiles in shared memory; what lies beyond the matrices is zero.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE + 1];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int m = blockIdx.y * TILE + y;
    const int n = blockIdx.x * TILE + x;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int begin = 0; begin < K; begin += TILE) {
        left[y][x] = m < M && begin + x < K ? a[size_t(m) * K + begin + x] : 0.0f;
        right[y][x] = begin + y < K && n < N ? b[size_t(begin + y) * N + n] : 0.0f;
        __syncthreads();
        /*@any*/ for (int k = 0; k < min(TILE, K - begin); k += 1) {
            sum += left[y][k] * right[k][x];
        }
        __syncthreads();
    }
    if (m < M && n < N) {
        /*@out*/ c[size_t(m) * N + n] = sum;
    }
}
