import numpy as np
import kernel_tuner as kt

CODE = """
__global__ void scaled_add(float *out, const float *x, const float *y, float factor, int n) {
    int start = blockIdx.x * block_size_x * per_thread + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < per_thread; k++) {
        int i = start + k * block_size_x;
        if (i < n) out[i] = factor * x[i] + y[i];
    }
}
"""


def main(n=2000):
    factor = np.float32(2.5)
    x = np.random.normal(size=n).astype("float32")
    y = np.random.normal(size=n).astype("float32")
    out = np.empty_like(x)
    params = dict(block_size_x=[64, 128, 256], per_thread=[1, 2, 4])
    kt.tune_kernel("scaled_add", CODE, n, [out, x, y, factor, np.int32(n)], params,
                   grid_div_x=["block_size_x * per_thread"],
                   answer=[factor * x + y, None, None, None, None])


main()
