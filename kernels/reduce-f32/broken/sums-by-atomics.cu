/*---
[expect]
verdict = "non_deterministic"

[[launch]]
memset = "y"
byte = 0

[[launch]]
kernel = "reduce"
grid = ["R * cdiv(C, 256)"]
block = [256]
args = ["x", "y", "C"]
---*/
// Wrong for this task: the warps add to y in whatever order they come, so that the last bits of a
// result differ from one execution to the next.
extern "C" __global__ void __launch_bounds__(256)
    reduce(const float* __restrict__ x, float* __restrict__ y, int C) {
    const int slices = (C + 255) / 256;
    const int row = blockIdx.x / slices;
    const int c = blockIdx.x % slices * 256 + threadIdx.x;
    float sum = c < C ? x[size_t(row) * C + c] : 0.0f;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(y + row, sum);
}
