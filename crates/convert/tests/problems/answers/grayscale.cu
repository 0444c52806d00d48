/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(height * width, 64)"]
block = [64]
args = ["image", "y", "height", "width"]
---*/
extern "C" __global__ void answer(const float* image, double* y, int height, int width) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= height * width) return;
    y[at] = 0.299 * image[3 * at] + 0.587 * image[3 * at + 1] + 0.114 * image[3 * at + 2];
}
