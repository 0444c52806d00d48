import numpy
from collections import OrderedDict
from kernel_tuner import tune_kernel

rows = 40
columns = 96

kernel_source = r"""
extern "C" __global__ void row_sums(float *sums, const float *x, int columns) {
    __shared__ float part[block_size_x];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += block_size_x) {
        sum += x[blockIdx.x * columns + i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = block_size_x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            part[threadIdx.x] += part[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0];
    }
}
"""

x = numpy.random.randn(rows, columns).astype(numpy.float32)
sums = numpy.zeros(rows).astype(numpy.float32)
tune_params = OrderedDict()
tune_params["block_size_x"] = [2**i for i in range(5, 9)]

tune_kernel("row_sums", kernel_source, rows, [sums, x, numpy.int32(columns)], tune_params,
            grid_div_x=[], answer=[x.sum(axis=1), None, None])
