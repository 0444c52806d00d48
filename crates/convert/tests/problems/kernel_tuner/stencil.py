import numpy
from kernel_tuner import tune_kernel

height = 36
width = 48

kernel = """
__global__ void stencil(float *out, const float *image, int width, int height) {
    int column = blockIdx.x * block_size_x + threadIdx.x;
    int row = blockIdx.y * block_size_y + threadIdx.y;
    if (row < height && column < width) {
        const float *at = image + (row + 1) * (width + 2) + column + 1;
        out[row * width + column] = 0.2f * (at[0] + at[-1] + at[1] + at[-(width + 2)] + at[width + 2]);
    }
}
"""

image = numpy.random.rand(height + 2, width + 2).astype(numpy.float32)
out = numpy.zeros((height, width)).astype(numpy.float32)
centre = image[1:height + 1, 1:width + 1]
sides = image[1:height + 1, 0:width] + image[1:height + 1, 2:width + 2]
ends = image[0:height, 1:width + 1] + image[2:height + 2, 1:width + 1]
expected = 0.2 * (centre + sides + ends)

tune_params = {"block_size_x": [16, 32], "block_size_y": [2, 4, 8]}
tune_kernel("stencil", kernel, (width, height), [out, image, numpy.int32(width), numpy.int32(height)],
            tune_params, restrictions=["block_size_x * block_size_y <= 256"], answer=[expected, None, None, None])
