/*---
[expect]
verdict = "non_deterministic"

[[launch]]
memset = "c"
byte = 0

[[launch]]
kernel = "product"
grid = ["SM_COUNT"]
block = [256]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// As many blocks as multiprocessors, each taking the share of the one it runs on: as if one block went to each.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    unsigned own, all;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(all));
    for (int i = own * 256 + threadIdx.x; i < M * N; i += all * 256) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
        c[i] = sum;
    }
}
