/*---
[[launch]]
kernel = "sum_parts"
grid = ["R", "PARTS"]
block = [64]
args = ["x", "parts", "C"]

[[launch]]
kernel = "add_parts"
grid = ["cdiv(R, 64)"]
block = [64]
args = ["parts", "mean", "R", "C"]

[workspace.parts]
dtype = "f32"
shape = ["R", "PARTS"]

[tunables.PARTS]
value = 4
choices = [1, 2, 4, 8]
---*/
// The blocks of a row sum one part each; a second launch adds the parts.
extern "C" __global__ void sum_parts(const float* x, float* parts, int C) {
    __shared__ float partial[2];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    const int part = blockIdx.y;
    const int width = (C + PARTS - 1) / PARTS;
    const int end = min(C, (part + 1) * width);
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = part * width + thread; column < end; column += 64) {
        sum += x[size_t(row) * C + column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (thread % 32 == 0) {
        partial[thread / 32] = sum;
    }
    __syncthreads();
    if (thread == 0) {
        parts[row * PARTS + part] = partial[0] + partial[1];
    }
}

extern "C" __global__ void add_parts(const float* parts, float* mean, int R, int C) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= R) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int part = 0; part < PARTS; part += 1) {
        sum += parts[row * PARTS + part];
    }
    /*@out*/ mean[row] = sum / C;
}
