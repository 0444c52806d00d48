/*---
[[launch]]
memset = "done"
byte = 0

[[launch]]
kernel = "mean_rows"
grid = ["R", "PARTS"]
block = [32]
args = ["x", "parts", "done", "mean", "C"]

[workspace.parts]
dtype = "f32"
shape = ["R", "PARTS"]

[workspace.done]
dtype = "u32"
shape = ["R"]

[tunables.PARTS]
value = 4
choices = [2, 3, 4]
---*/
// The blocks of a row sum one part each, and the one that arrives last adds the parts in order.
extern "C" __global__ void mean_rows(const float* x, float* parts, unsigned* done, float* mean, int C) {
    const int lane = threadIdx.x;
    const int row = blockIdx.x;
    const int part = blockIdx.y;
    const int width = (C + PARTS - 1) / PARTS;
    const int end = min(C, (part + 1) * width);
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = part * width + lane; column < end; column += 32) {
        sum += x[size_t(row) * C + column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) {
        parts[row * PARTS + part] = sum;
        __threadfence();
        const unsigned before = atomicAdd(&done[row], 1u);
        if (before == PARTS - 1) {
            __threadfence();
            float total = 0.0f;
            for (int index = 0; index < PARTS; index += 1) {
                total += parts[row * PARTS + index];
            }
            /*@out*/ mean[row] = total / C;
        }
    }
}
