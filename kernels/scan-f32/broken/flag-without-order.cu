/*---
[expect]
verdict = "data_race"

[[launch]]
memset = "ready"
byte = 0

[[launch]]
memset = "next"
byte = 0

[[launch]]
kernel = "scan"
grid = ["cdiv(N, 512)"]
block = [32]
args = ["x", "y", "prefixes", "ready", "next", "N"]

[workspace.prefixes]
dtype = "f32"
shape = ["cdiv(N, 512)"]
[workspace.ready]
dtype = "i32"
shape = ["cdiv(N, 512)"]
[workspace.next]
dtype = "i32"
shape = ["1"]
---*/
// Wrong: the prefix and the flag that announces it are two words, and nothing orders them: a block may
// see the flag before the prefix.
extern "C" __global__ void __launch_bounds__(32)
    scan(const float* __restrict__ x, float* __restrict__ y, float* prefixes, int* ready, int* next,
         int N) {
    if (threadIdx.x != 0) return;
    const int block = atomicAdd(next, 1);
    const int first = block * 512;
    float sum = 0.0f;
    for (int n = first; n < min(first + 512, N); ++n) sum += x[n];
    float before = 0.0f;
    if (block > 0) {
        while (atomicAdd(ready + block - 1, 0) == 0) {
        }
        before = prefixes[block - 1];
    }
    prefixes[block] = before + sum;
    atomicExch(ready + block, 1);
    for (int n = first; n < min(first + 512, N); ++n) {
        before += x[n];
        y[n] = before;
    }
}
