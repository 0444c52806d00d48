/*---
[expect]
verdict = "compile_rejected"

[[launch]]
kernel = "product"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "c", "M", "N", "K"]
---*/
// A compiler's message with the words "lock" and "No such file".
extern "C" __global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    const int n = blockIdx.x * 16 + threadIdx.x;
    const int m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    const int clockwork = blockIdx.z + No_such_file_or_directory_lock;  // <- finding
    c[m * N + n] = clockwork;
}
