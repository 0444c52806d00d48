import numpy
from kernel_tuner import tune_kernel

n = 512
code = """
__global__ void halve(float *y, const float *x, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i];
}
"""
x = numpy.random.randn(n).astype(numpy.float32)
y = numpy.zeros_like(x)
args = [y, x, numpy.int32(n)]
tune_kernel("halve", code, n, args, {"block_size_x": [64]}, cmem_args={"weights": x})
