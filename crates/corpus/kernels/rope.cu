// Rotary position embedding in place on queries and keys, with the angles worked out where they are used.
#include <cuda_fp16.h>

extern "C" __global__ void rope(__half2* q, const int* positions, int heads, int half_dim, float base) {
    const int token = blockIdx.x;
    const float position = positions[token];
    for (int i = threadIdx.x; i < heads * half_dim; i += blockDim.x) {
        const int d = i % half_dim;
        const float angle = position * powf(base, -2.0f * d / (2 * half_dim));
        float sine, cosine;
        sincosf(angle, &sine, &cosine);
        __half2* at = &q[token * heads * half_dim + i];
        const float2 pair = __half22float2(*at);
        *at = __floats2half2_rn(pair.x * cosine - pair.y * sine, pair.x * sine + pair.y * cosine);
    }
}

// The other convention: element d is rotated with element d + half_dim, from a table of cosines and sines.
extern "C" __global__ void rope_halves(const float* in, float* out, const float2* table, int heads, int half_dim) {
    const int token = blockIdx.x, head = blockIdx.y, d = threadIdx.x;
    const long row = ((long)token * heads + head) * 2 * half_dim;
    const float x = in[row + d], y = in[row + d + half_dim];
    const float2 turn = __ldg(&table[token * half_dim + d]);
    __stcs(&out[row + d], x * turn.x - y * turn.y);
    __stcs(&out[row + d + half_dim], y * turn.x + x * turn.y);
}
