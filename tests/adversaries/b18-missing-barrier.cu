/*---
[expect]
verdict = "data_race"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// Reads a tile that other threads may not have filled yet.
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[16][16];
    __shared__ float right[16][16];
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int first = 0; first < K; first += 16) {
        const int k = first + threadIdx.x;
        const int l = first + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = m < M && k < K ? a[m * K + k] : 0.0f;
        right[threadIdx.y][threadIdx.x] = l < K && n < N ? b[l * N + n] : 0.0f;
        for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (m < M && n < N) c[m * N + n] = sum;
}
