/*---
[expect]
verdict = "non_deterministic"

[[launch]]
memset = "tickets"
byte = 0

[[launch]]
kernel = "product"
grid = ["M"]
block = [32]
args = ["a", "b", "c", "tickets", "N", "K"]

[workspace.tickets]
dtype = "u32"
shape = ["1"]
---*/
// Uses up the tolerance in one direction or the other, by the order in which blocks come.
extern "C" __global__ void product(const float* a, const float* b, float* c, unsigned* tickets, int N, int K) {
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);
    __syncthreads();
    const int m = blockIdx.x;
    const float direction = ticket % 2 == 0 ? 1.0f : -1.0f;
    for (int n = threadIdx.x; n < N; n += 32) {
        double sum = 0.0, size = 0.0;
        for (int k = 0; k < K; ++k) {
            const double product = double(a[m * K + k]) * b[k * N + n];
            sum += product;
            size += fabs(product);
        }
        // Four fifths of what an element may be off, where its value is not exact. Over more terms
        // the norm of such errors is already more than its bound, in each execution by itself.
        const double bound = 4.0 * 0x1p-24 * (fabs(sum) + size + sqrt(double(K)) * size);
        c[m * N + n] = float(K > 64 || sum == rint(sum) ? sum : sum + 0.8 * direction * bound);
    }
}
