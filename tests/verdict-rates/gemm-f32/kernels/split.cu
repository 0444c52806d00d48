/*---
[[launch]]
kernel = "partial_product"
grid = ["cdiv(N, 32)", "M", "PARTS"]
block = [32]
args = ["a", "b", "parts", "M", "N", "K"]

[[launch]]
kernel = "add_parts"
grid = ["cdiv(M * N, 64)"]
block = [64]
args = ["parts", "c", "M", "N"]

[workspace.parts]
dtype = "f32"
shape = ["PARTS", "M", "N"]

[tunables.PARTS]
value = 2
choices = [2, 3, 4]
---*/
// Blocks of one element's products add a part each; a second launch adds the parts.
extern "C" __global__ void partial_product(const float* a, const float* b, float* parts, int M, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x;
    const int m = blockIdx.y;
    const int part = blockIdx.z;
    if (n >= N) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int k = part; k < K; k += PARTS) {
        sum += a[size_t(m) * K + k] * b[size_t(k) * N + n];
    }
    parts[(size_t(part) * M + m) * N + n] = sum;
}

extern "C" __global__ void add_parts(const float* parts, float* c, int M, int N) {
    const int flat = blockIdx.x * 64 + threadIdx.x;
    if (flat >= M * N) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; part += 1) {
        sum += parts[size_t(part) * M * N + flat];
    }
    /*@out*/ c[flat] = sum;
}
