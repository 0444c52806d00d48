import numpy
from kernel_tuner import tune_kernel

rows = 32
columns = 80

kernel = """
__global__ void row_maxima(float *maxima, const float *x, int rows, int columns) {
    extern __shared__ float part[];
    int row = blockIdx.x;
    if (row >= rows) return;
    float largest = 0.0f;
    for (int i = threadIdx.x; i < columns; i += block_size_x) largest = fmaxf(largest, fabsf(x[row * columns + i]));
    part[threadIdx.x] = largest;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < block_size_x; i++) largest = fmaxf(largest, part[i]);
        maxima[row] = largest;
    }
}
"""

x = numpy.random.randn(rows, columns).astype(numpy.float32)
maxima = numpy.zeros(rows).astype(numpy.float32)
tune_kernel("row_maxima", kernel, rows, [maxima, x, numpy.int32(rows), numpy.int32(columns)],
            {"block_size_x": [32, 64, 128]}, grid_div_x=[], smem_args=dict(size="block_size_x * 4"),
            answer=[numpy.max(numpy.abs(x), axis=1), None, None, None])
