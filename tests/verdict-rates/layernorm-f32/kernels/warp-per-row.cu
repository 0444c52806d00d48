/*---
[[launch]]
kernel = "normalise_rows"
grid = ["cdiv(R, WARPS)"]
block = ["WARPS * 32"]
args = ["x", "gain", "shift", "y", "R", "C"]

[tunables.WARPS]
value = 4
choices = [1, 2, 4]
---*/
// One warp normalises one row; its lanes add by shuffles.
extern "C" __global__ void normalise_rows(const float* x, const float* gain, const float* shift, float* y, int R,
                                          int C) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= R) return;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = lane; column < C; column += 32) {
        sum += x[size_t(row) * C + column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    const float mean = sum / C;
    /*@wide*/ float squares = 0.0f;
    /*@any*/ for (int column = lane; column < C; column += 32) {
        const float difference = x[size_t(row) * C + column] - mean;
        squares += difference * difference;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    }
    const float inverse = rsqrtf(squares / C + 1e-5f);
    /*@any*/ for (int column = lane; column < C; column += 32) {
        const float difference = x[size_t(row) * C + column] - mean;
        /*@out*/ y[size_t(row) * C + column] = difference * inverse * gain[column] + shift[column];
    }
}
