/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(length * channels, 64)"]
block = [64]
args = ["decay", "values", "y", "length", "channels"]
---*/
extern "C" __global__ void answer(const float* decay, const float* values, double* y, int length, int channels) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length * channels) return;
    const int channel = at % channels;
    double state = 0.0;
    for (int step = 0; step <= at / channels; ++step) state = state * decay[channel] + values[step * channels + channel];
    y[at] = state;
}
