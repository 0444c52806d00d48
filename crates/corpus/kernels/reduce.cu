// Row sums: a grid-stride load, a shared-memory tree and a shuffle tail.
extern "C" __global__ void row_sums(const float* x, float* sums, int columns) {
    __shared__ float partial[128];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int c = t; c < columns; c += blockDim.x) sum += x[blockIdx.x * columns + c];
    partial[t] = sum;
    __syncthreads();
    for (int half = 64; half >= 32; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t < 32) {
        float tail = partial[t];
        for (int lane = 16; lane > 0; lane /= 2) tail += __shfl_down_sync(0xffffffffu, tail, lane);
        if (t == 0) sums[blockIdx.x] = tail;
    }
}
