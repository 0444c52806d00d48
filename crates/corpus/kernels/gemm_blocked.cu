// c = a b in single precision: tiles of 32x32 in shared memory, 4x4 results per thread, edges guarded.
constexpr int TILE = 32;
constexpr int DEPTH = 8;

extern "C" __global__ void gemm_blocked(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[DEPTH][TILE + 4];
    __shared__ float right[DEPTH][TILE];
    const int tx = threadIdx.x % 8, ty = threadIdx.x / 8;
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    float sum[4][4] = {};
    for (int start = 0; start < k; start += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += 64) {
            const int row = row0 + i / DEPTH, t = start + i % DEPTH;
            left[i % DEPTH][i / DEPTH] = row < m && t < k ? a[row * k + t] : 0.0f;
            const int column = column0 + i % TILE, u = start + i / TILE;
            right[i / TILE][i % TILE] = column < n && u < k ? b[u * n + column] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < DEPTH; ++t) {
            const float4 x = *reinterpret_cast<const float4*>(&left[t][ty * 4]);
            const float4 y = *reinterpret_cast<const float4*>(&right[t][tx * 4]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(xs[i], ys[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = row0 + ty * 4 + i, column = column0 + tx * 4 + j;
            if (row < m && column < n) c[row * n + column] = sum[i][j];
        }
}
