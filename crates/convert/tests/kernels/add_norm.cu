// Adds a layer's result to the residual stream in place, and normalises the sum.
__global__ void add_norm(float* residual, const float* x, float* y, int rows, int width) {
    const int row = blockIdx.x;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < width; c += 32) {
        const float sum = residual[row * width + c] + x[row * width + c];
        residual[row * width + c] = sum;
        squares += sum * sum;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float scale = rsqrtf(squares / width + 1e-5f);
    for (int c = threadIdx.x; c < width; c += 32) y[row * width + c] = residual[row * width + c] * scale;
}

void launch(float* residual, const float* x, float* y) {
    const int rows = 64, width = 512;
    add_norm<<<rows, 32>>>(residual, x, y, rows, width);
}
