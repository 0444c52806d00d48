import numpy as np
from kernel_tuner import tune_kernel

kernel_string = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""

size = 1024

a = np.random.randn(size).astype(np.float32)
b = np.random.randn(size).astype(np.float32)
c = np.zeros_like(b)
n = np.int32(size)

tune_params = dict()
tune_params["block_size_x"] = [32 * i for i in range(1, 9)]

tune_kernel("vector_add", kernel_string, size, [c, a, b, n], tune_params, answer=[a + b, None, None, None])
