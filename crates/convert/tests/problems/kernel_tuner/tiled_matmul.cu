// C = A * B: each thread computes rows_per_thread elements of a column.
__global__ void matmul(float *c, const float *a, const float *b, int width, int height, int depth) {
    int column = blockIdx.x * block_size_x + threadIdx.x;
    int first = (blockIdx.y * block_size_y + threadIdx.y) * rows_per_thread;
    if (column >= width) {
        return;
    }
    for (int r = 0; r < rows_per_thread; r++) {
        int row = first + r;
        if (row < height) {
            float sum = 0.0f;
            for (int k = 0; k < depth; k++) {
                sum += a[row * depth + k] * b[k * width + column];
            }
            c[row * width + column] = sum;
        }
    }
}
