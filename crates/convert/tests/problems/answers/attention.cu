/*---
[[launch]]
kernel = "answer"
grid = ["cdiv(batch_size * heads * length * depth, 64)"]
block = [64]
args = ["Q", "K", "V", "y", "batch_size", "heads", "length", "depth"]
---*/
extern "C" __global__ void answer(const float* Q, const float* K, const float* V, double* y, int batch_size, int heads, int length, int depth) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= batch_size * heads * length * depth) return;
    const int d = at % depth, query = at / depth % length, first = at / depth / length * length * depth;
    double largest = -INFINITY, mass = 0.0, sum = 0.0;
    for (int pass = 0; pass < 2; ++pass)
        for (int key = 0; key <= query; ++key) {
            double score = 0.0;
            for (int c = 0; c < depth; ++c) score += double(Q[first + query * depth + c]) * K[first + key * depth + c];
            score /= sqrt(double(depth));
            if (pass == 0) {
                largest = fmax(largest, score);
                continue;
            }
            mass += exp(score - largest);
            sum += exp(score - largest) * V[first + key * depth + d];
        }
    y[at] = sum / mass;
}
