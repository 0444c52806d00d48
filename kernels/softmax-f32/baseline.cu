/*---
[[launch]]
kernel = "softmax"
grid = ["cdiv(R, 64)"]
block = [64]
args = ["x", "y", "R", "C"]
---*/
// Generation 0: one thread per row, three walks over it. Neighbouring threads touch elements that
// lie a whole row apart, so each of their loads fetches a sector for four bytes.
extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= R) return;
    const float* from = x + size_t(row) * C;
    float* to = y + size_t(row) * C;

    float largest = from[0];
    for (int c = 1; c < C; ++c) largest = fmaxf(largest, from[c]);
    float mass = 0.0f;
    for (int c = 0; c < C; ++c) mass += expf(from[c] - largest);
    const float inverse = 1.0f / mass;
    for (int c = 0; c < C; ++c) to[c] = expf(from[c] - largest) * inverse;
}
