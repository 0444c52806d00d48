/*---
[expect]
verdict = "data_race"

[[launch]]
memset = "flag"
byte = 0

[[launch]]
kernel = "product"
grid = [2]
block = [256]
args = ["a", "b", "c", "part", "flag", "M", "N", "K"]

[workspace.part]
dtype = "f32"
shape = ["M", "N"]
[workspace.flag]
dtype = "i32"
shape = [1]
---*/
// The signal is atomic for the block that gives it and for no other.
extern "C" __global__ void product(const float* a, const float* b, float* c, float* part, int* flag, int M,
                                   int N, int K) {
    const int half = K / 2;
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < M * N; i += 256) {
            float sum = 0.0f;
            for (int k = 0; k < half; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
            part[i] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch_block(flag, 1);
        }
    } else {
        if (threadIdx.x == 0) {
            while (atomicAdd(flag, 0) == 0) {}  // <- finding
            __threadfence();
        }
        __syncthreads();
        for (int i = threadIdx.x; i < M * N; i += 256) {
            float sum = 0.0f;
            for (int k = half; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
            c[i] = sum + part[i];
        }
    }
}
