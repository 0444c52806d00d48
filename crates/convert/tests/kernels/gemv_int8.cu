/* y = (W x) * scale, weights and activations int8, one warp per output row. nvcc -O3 gemv_int8.cu */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define WARP 32
#define ROWS_PER_BLOCK 4
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%s\n", cudaGetErrorString(e)); exit(1); } } while (0)

extern "C" __global__ void gemv_int8(const int8_t *W, const int8_t *x, const float *row_scale, float *y, int M, int K)
{
    int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y;
    if (row >= M) return;
    const int *w4 = (const int *)(W + (size_t)row * K);
    const int *x4 = (const int *)x;
    int sum = 0;
    for (int k = threadIdx.x; k < K / 4; k += WARP)
        sum = __dp4a(w4[k], x4[k], sum);
    for (int o = WARP / 2; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) y[row] = sum * row_scale[row];
}

int main(int argc, char **argv)
{
    int M = 512, K = 1024;
    int8_t *d_W, *d_x; float *d_scale, *d_y;
    CHECK(cudaMalloc(&d_W, M * K));
    CHECK(cudaMalloc(&d_x, K));
    CHECK(cudaMalloc(&d_scale, M * sizeof(float)));
    CHECK(cudaMalloc(&d_y, M * sizeof(float)));
    dim3 threads(WARP, ROWS_PER_BLOCK);
    gemv_int8<<<CEIL_DIV(M, ROWS_PER_BLOCK), threads>>>(d_W, d_x, d_scale, d_y, M, K);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
