/*---
[[launch]]
memset = "finished"
byte = 0

[[launch]]
kernel = "add_rows"
grid = ["R * cdiv(C, 4000)"]
block = [256]
args = ["x", "y", "parts", "finished", "C"]

[workspace.parts]
dtype = "f32"
shape = ["R", "cdiv(C, 4000)"]

[workspace.finished]
dtype = "u32"
shape = ["R"]
---*/
// SNIPPET vector_loads
// SNIPPET warp_reduction
// SNIPPET split_reduction

extern "C" __global__ void add_rows(const float *x, float *y, float *parts, unsigned *finished, int C) {
    const int slices = (C + 3999) / 4000;
    const int row = blockIdx.x / slices, slice = blockIdx.x % slices;
    float sum = 0.0f;
    read_row(x + size_t(row) * C + slice * 4000, min(4000, C - slice * 4000), [&](int, float value) { sum += value; });
    sum = add_block(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    if (!is_last_block(finished + row, slices)) return;
    float total = 0.0f;
    for (int s = threadIdx.x; s < slices; s += blockDim.x) total += parts[size_t(row) * slices + s];
    total = add_block(total);
    if (threadIdx.x == 0) y[row] = total;
}
