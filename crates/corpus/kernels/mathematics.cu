// The mathematics library as the compiler inlines it, with its slow paths, stack arrays and calls.
__constant__ float weights[4] = {1.0f, -2.0f, 0.5f, 4.0f};

__device__ __noinline__ float polynomial(const float* x, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum = sum * x[i] + weights[i & 3];
    return sum;
}

extern "C" __global__ void mathematics(const float* x, float* singles, const double* y, double* doubles, int terms) {
    const int i = threadIdx.x;
    float powers[8];
    for (int k = 0; k < 8; ++k) powers[k] = x[i] / (k + 1);
    singles[5 * i] = expf(x[i]);
    singles[5 * i + 1] = sinf(x[i] * 1000000.0f);
    singles[5 * i + 2] = powf(fabsf(x[i]), 1.5f);
    singles[5 * i + 3] = polynomial(powers, terms);
    singles[5 * i + 4] = tanhf(x[i]) + rsqrtf(1.0f + x[i] * x[i]);
    doubles[4 * i] = exp(y[i]);
    doubles[4 * i + 1] = sin(y[i] * 1e9);
    doubles[4 * i + 2] = log(fabs(y[i]) + 1.0);
    doubles[4 * i + 3] = y[i] / 3.0 + sqrt(fabs(y[i]));
}
