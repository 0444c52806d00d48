/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(heads * q_len * kv_len, 64)"]
block = [64]
args = ["q_latent", "q_rope", "kv_latent", "kv_rope", "scores", "q_len", "kv_len", "heads", "latent", "rope"]
---*/
#include <cuda_fp16.h>

extern "C" __global__ void answer(const __half* q_latent, const __half* q_rope, const __half* kv_latent, const __half* kv_rope, double* scores, int q_len, int kv_len, int heads, int latent, int rope) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= heads * q_len * kv_len) return;
    const int key = at % kv_len, query = at / kv_len % q_len, row = query * heads + at / kv_len / q_len;
    double sum = 0.0;
    for (int k = 0; k < rope; ++k) sum += double(__half2float(q_rope[row * rope + k])) * double(__half2float(kv_rope[key * rope + k]));
    for (int k = 0; k < latent; ++k) sum += double(__half2float(q_latent[row * latent + k])) * double(__half2float(kv_latent[key * latent + k]));
    scores[at] = sum;
}
