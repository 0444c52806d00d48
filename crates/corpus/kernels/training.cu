// Elementwise work of training: AdamW with bfloat16 weights, GELU and SwiGLU, dropout, quantising per block, clipping.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void adamw(float4* parameters, uint2* rounded, const float4* gradients, float4* first, float4* second, int quads,
                                 float rate, float decay, float correction1, float correction2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    const float4 g = gradients[i];
    float4 p = parameters[i], m = first[i], v = second[i];
    float *ps = &p.x, *ms = &m.x, *vs = &v.x;
    const float* gs = &g.x;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        ms[j] = 0.9f * ms[j] + 0.1f * gs[j];
        vs[j] = 0.95f * vs[j] + 0.05f * gs[j] * gs[j];
        ps[j] -= rate * (ms[j] * correction1 / (sqrtf(vs[j] * correction2) + 1e-8f) + decay * ps[j]);
    }
    parameters[i] = p;
    first[i] = m;
    second[i] = v;
    const __nv_bfloat162 low = __floats2bfloat162_rn(p.x, p.y), high = __floats2bfloat162_rn(p.z, p.w);
    rounded[i] = make_uint2(*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high));
}

extern "C" __global__ void activations(const __half2* gate, const __half2* up, __half2* swiglu, __half2* gelu, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float2 g = __half22float2(gate[i]);
    const __half2 silu = __floats2half2_rn(g.x / (1.0f + __expf(-g.x)), g.y / (1.0f + __expf(-g.y)));
    swiglu[i] = __hmul2(silu, up[i]);
    auto smooth = [](float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); };
    gelu[i] = __floats2half2_rn(smooth(g.x), 0.5f * g.y * (1.0f + erff(g.y * 0.70710678f)));
}

// Symmetric bytes with one scale per 32 numbers.
extern "C" __global__ void quantise_blocks(const float* x, signed char* q, float* scales, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = i < n ? x[i] : 0.0f;
    const unsigned top = __reduce_max_sync(~0u, __float_as_uint(fabsf(value)));
    const float scale = __uint_as_float(top) / 127.0f;
    if (i < n) q[i] = scale > 0.0f ? __float2int_rn(value / scale) : 0;
    if (threadIdx.x % 32 == 0 && i < n) scales[i / 32] = scale;
}

// The squared norm of everything into one number, then a scale that every block reads in a second launch.
extern "C" __global__ void squared_norm(const float* x, double* total, int n) {
    double sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += (double)x[i] * x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

extern "C" __global__ void clip(float* x, const double* total, float limit, int n) {
    const float norm = sqrt(*total);
    const float scale = norm > limit ? limit / norm : 1.0f;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= scale;
}

// Bits of all lanes in one word, written by one lane: the mask of a dropout and what it lets through.
extern "C" __global__ void dropout(const float* x, float* y, unsigned* mask, unsigned seed, float keep, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = i * 0x9E3779B1u + seed;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    h ^= h >> 16;
    const bool stays = i < n && h * 2.3283064e-10f < keep;
    const unsigned word = __ballot_sync(~0u, stays);
    if (i < n) y[i] = stays ? x[i] / keep : 0.0f;
    if (threadIdx.x % 32 == 0 && i < n) mask[i / 32] = word;
}
