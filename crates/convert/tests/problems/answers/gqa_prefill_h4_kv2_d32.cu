/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(q_len * heads, 64)"]
block = [64]
args = ["q", "k", "v", "output", "lse", "q_len", "kv_len", "heads", "kv_heads", "head_dim"]
---*/
extern "C" __global__ void answer(const float* q, const float* k, const float* v, double* output, double* lse, int q_len, int kv_len,
                                  int heads, int kv_heads, int head_dim) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= q_len * heads) return;
    const int shared = at % heads / (heads / kv_heads);
    double largest = -INFINITY, mass = 0.0;
    for (int d = 0; d < head_dim; ++d) output[at * head_dim + d] = 0.0;
    for (int pass = 0; pass < 2; ++pass)
        for (int key = 0; key < kv_len; ++key) {
            const int first = (key * kv_heads + shared) * head_dim;
            double score = 0.0;
            for (int d = 0; d < head_dim; ++d) score += double(q[at * head_dim + d]) * k[first + d];
            score *= 0.17677669529663687;
            if (pass == 0) {
                largest = fmax(largest, score);
                continue;
            }
            mass += exp(score - largest);
            for (int d = 0; d < head_dim; ++d) output[at * head_dim + d] += exp(score - largest) * v[first + d];
        }
    for (int d = 0; d < head_dim; ++d) output[at * head_dim + d] /= mass;
    lse[at] = (largest + log(mass)) / log(2.0);
}
