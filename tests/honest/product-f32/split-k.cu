/*---
[idea]
title = "split the sum over blocks"
hypothesis = "few elements and many terms: blocks that share an element fill the device"

[[launch]]
memset = "c"
byte = 0

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)", "cdiv(K, PART)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]

[tunables.PART]
value = 32
choices = [16, 32, 64]
---*/
// Each block sums a part of the terms and adds it to what others have added.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const int first = blockIdx.z * PART;
    const int last = min(K, first + PART);
    float sum = 0.0f;
    for (int k = first; k < last; ++k) sum += a[m * K + k] * b[k * N + n];
    atomicAdd(&c[m * N + n], sum);
}
