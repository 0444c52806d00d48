// Causal attention in single precision, one thread per query, keys and values staged in shared memory.
constexpr int DIM = 16;
constexpr int TILE = 32;

extern "C" __global__ void attention_online(const float4* q, const float4* k, const float4* v, float4* out, int length) {
    __shared__ float4 keys[TILE][DIM / 4];
    __shared__ float4 values[TILE][DIM / 4];
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    float4 query[DIM / 4], sum[DIM / 4] = {};
    for (int d = 0; d < DIM / 4; ++d) query[d] = row < length ? q[row * (DIM / 4) + d] : make_float4(0, 0, 0, 0);
    float top = -3.0e38f, mass = 0.0f;
    for (int start = 0; start < length; start += TILE) {
        for (int i = threadIdx.x; i < TILE * (DIM / 4); i += blockDim.x) {
            const int key = start + i / (DIM / 4);
            if (key < length) {
                keys[i / (DIM / 4)][i % (DIM / 4)] = k[key * (DIM / 4) + i % (DIM / 4)];
                values[i / (DIM / 4)][i % (DIM / 4)] = v[key * (DIM / 4) + i % (DIM / 4)];
            }
        }
        __syncthreads();
        for (int j = 0; j < TILE && start + j <= row && start + j < length; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < DIM / 4; ++d) {
                const float4 key = keys[j][d];
                score = fmaf(query[d].x, key.x, fmaf(query[d].y, key.y, fmaf(query[d].z, key.z, fmaf(query[d].w, key.w, score))));
            }
            score *= rsqrtf((float)DIM);
            const float best = fmaxf(top, score);
            const float shrink = expf(top - best), weight = expf(score - best);
            mass = mass * shrink + weight;
            top = best;
#pragma unroll
            for (int d = 0; d < DIM / 4; ++d) {
                const float4 value = values[j][d];
                sum[d].x = sum[d].x * shrink + weight * value.x;
                sum[d].y = sum[d].y * shrink + weight * value.y;
                sum[d].z = sum[d].z * shrink + weight * value.z;
                sum[d].w = sum[d].w * shrink + weight * value.w;
            }
        }
        __syncthreads();
    }
    if (row >= length) return;
    for (int d = 0; d < DIM / 4; ++d)
        out[row * (DIM / 4) + d] = make_float4(sum[d].x / mass, sum[d].y / mass, sum[d].z / mass, sum[d].w / mass);
}
