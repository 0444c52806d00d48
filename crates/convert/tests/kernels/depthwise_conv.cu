#include "cuda_fp16.h"
#include <vector>

#define R 1
#define TAPS (2 * R + 1)
#define IN(n, h, w, c)  in[(((n) * H + (h)) * W + (w)) * C + (c)]

typedef __half half_t;

// NHWC, 3x3, stride 1, zero padding. One thread per output element.
static __global__ __launch_bounds__(128) void
dwconv3x3(const half_t* __restrict__ in, const half_t* __restrict__ filter, half_t* __restrict__ out, int N, int H, int W, int C)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    const int w = blockIdx.y;
    const int h = blockIdx.z % H;
    const int n = blockIdx.z / H;
    if (c >= C) return;
    float acc = 0.f;
    #pragma unroll
    for (int r = 0; r < TAPS; r++)
        for (int s = 0; s < TAPS; s++) {
            const int y = h + r - R, x = w + s - R;
            if (y < 0 || y >= H || x < 0 || x >= W) continue;
            acc += __half2float(IN(n, y, x, c)) * __half2float(filter[(r * TAPS + s) * C + c]);
        }
    out[((n * H + h) * W + w) * C + c] = __float2half(acc);
}

cudaError_t run_dwconv(const half_t* in, const half_t* filter, half_t* out, int N, int H, int W, int C, cudaStream_t s)
{
    dim3 block(128);
    dim3 grid((C + block.x - 1) / block.x, W, N * H);
    void* args[] = { &in, &filter, &out, &N, &H, &W, &C };
    return cudaLaunchKernel((const void*)dwconv3x3, grid, block, args, 0, s);
}
