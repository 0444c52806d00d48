/*---
[[launch]]
kernel = "transpose"
grid = ["min(BLOCKS, cdiv(M, 16) * cdiv(N, 16))"]
block = [16, 16]
args = ["x", "y", "M", "N"]

[tunables.BLOCKS]
value = 24
choices = [12, 24, 48]
---*/
// The blocks take tiles in turn, and use one tile of shared memory again and again.
extern "C" __global__ void transpose(const float* x, float* y, int M, int N) {
    __shared__ float tile[16][17];
    const int across = (N + 15) / 16;
    const int tiles = across * ((M + 15) / 16);
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        const int m = index / across * 16;
        const int n = index % across * 16;
        if (m + threadIdx.y < M && n + threadIdx.x < N) {
            tile[threadIdx.y][threadIdx.x] = x[size_t(m + threadIdx.y) * N + n + threadIdx.x];
        }
        __syncthreads();
        if (n + threadIdx.y < N && m + threadIdx.x < M) {
            /*@out*/ y[size_t(n + threadIdx.y) * M + m + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
        }
        __syncthreads();
    }
}
