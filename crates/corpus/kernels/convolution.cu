// Convolutions: 3x3 with the filter in constant memory, depthwise over channels-last halves, and as an implicit product.
#include <cuda_fp16.h>

__constant__ float filter[9];

extern "C" __global__ void convolve3x3(const float* image, float* out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
            const int column = min(max(x + dx, 0), width - 1), row = min(max(y + dy, 0), height - 1);
            sum += filter[(dy + 1) * 3 + dx + 1] * image[row * width + column];
        }
    out[y * width + x] = fmaxf(sum, 0.0f);
}

extern "C" __global__ void depthwise(const __half2* image, const __half2* weights, __half2* out, int length, int pairs) {
    const int pair = threadIdx.x, t = blockIdx.x;
    __half2 sum = __float2half2_rn(0.0f);
    for (int i = 0; i < 4; ++i)
        if (t - i >= 0) sum = __hfma2(image[(t - i) * pairs + pair], weights[i * pairs + pair], sum);
    out[t * pairs + pair] = __hmax2(sum, __float2half2_rn(-0.5f));
}

// out[p][f] = sum over c, r, s of image[y + r][x + s][c] * weights[f][r][s][c], the indices divided out of one number.
extern "C" __global__ void implicit_gemm(const float* image, const float* weights, float* out, int width, int channels, int filters, int out_width) {
    const int p = blockIdx.x, f = threadIdx.x, y = p / out_width, x = p % out_width;
    if (f >= filters) return;
    float sum = 0.0f;
    const int depth = 9 * channels;
    for (int i = 0; i < depth; ++i) {
        const int c = i % channels, s = i / channels % 3, r = i / channels / 3;
        sum = fmaf(__ldg(&image[((y + r) * width + x + s) * channels + c]), __ldg(&weights[f * depth + i]), sum);
    }
    out[p * filters + f] = sum;
}
