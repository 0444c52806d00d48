/*---
[expect]
verdict = "runtime_fault"
code = 716

[[launch]]
kernel = "transpose"
grid = ["cdiv(N, 128)", "M"]
block = [32]
args = ["x", "y", "M", "N"]
---*/
// Wrong: 16-byte loads from rows that begin on a 16-byte boundary only where N is a multiple of four.
extern "C" __global__ void __launch_bounds__(32)
    transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    const int column = blockIdx.x * 128 + 4 * threadIdx.x;
    const int row = blockIdx.y;
    const float* from = x + size_t(row) * N + column;
    float four[4] = {};
    if (column + 3 < N) {
        const float4 loaded = *reinterpret_cast<const float4*>(from);  // <- finding
        four[0] = loaded.x;
        four[1] = loaded.y;
        four[2] = loaded.z;
        four[3] = loaded.w;
    } else {
        for (int j = 0; j < 4 && column + j < N; ++j) four[j] = from[j];
    }
    for (int j = 0; j < 4 && column + j < N; ++j) y[size_t(column + j) * M + row] = four[j];
}
