/*---
[[launch]]
kernel = "normalise_rows"
grid = ["R"]
block = ["THREADS"]
shared = "C * 4"
args = ["x", "gain", "shift", "y", "C"]

[tunables.THREADS]
value = 64
choices = [64, 128]
---*/
// One block keeps its row in shared memory; the warps' sums meet there as well.
extern "C" __global__ void normalise_rows(const float* x, const float* gain, const float* shift, float* y, int C) {
    extern __shared__ float values[];
    __shared__ float sums[THREADS / 32];
    __shared__ float squares_of[THREADS / 32];
    const int thread = threadIdx.x;
    const int row = blockIdx.x;
    /*@wide*/ float sum = 0.0f;
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        values[column] = x[size_t(row) * C + column];
        sum += values[column];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (thread % 32 == 0) {
        sums[thread / 32] = sum;
    }
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        total += sums[warp];
    }
    const float mean = total / C;
    /*@wide*/ float squares = 0.0f;
    /*@any*/ for (int column = C - 1 - thread; column >= 0; column -= THREADS) {
        const float difference = values[column] - mean;
        squares += difference * difference;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    }
    if (thread % 32 == 0) {
        squares_of[thread / 32] = squares;
    }
    __syncthreads();
    float spread = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp += 1) {
        spread += squares_of[warp];
    }
    const float inverse = rsqrtf(spread / C + 1e-5f);
    /*@any*/ for (int column = thread; column < C; column += THREADS) {
        /*@out*/ y[size_t(row) * C + column] = (values[column] - mean) * inverse * gain[column] + shift[column];
    }
}
