/*---
[[launch]]
memset = "counts"
byte = 0

[[launch]]
kernel = "histogram"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "counts", "N"]
---*/
// Generation 0: one thread per byte and one atomic in global memory per thread. All threads of the
// device take turns at 256 words.
extern "C" __global__ void histogram(const unsigned char* __restrict__ x, int* __restrict__ counts,
                                     int N) {
    const int n = blockIdx.x * 256 + threadIdx.x;
    if (n < N) atomicAdd(counts + x[n], 1);
}
