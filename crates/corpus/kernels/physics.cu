// Numerical work: bodies that attract each other, a Fourier transform, a Cholesky factorisation, and a fractal.
extern "C" __global__ void nbody(const float4* bodies, float4* forces, int n, float softening) {
    __shared__ float4 tile[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 me = bodies[min(i, n - 1)];
    float3 force = {0.0f, 0.0f, 0.0f};
    for (int start = 0; start < n; start += blockDim.x) {
        if (start + threadIdx.x < n) tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < min((int)blockDim.x, n - start); ++j) {
            const float4 other = tile[j];
            const float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            const float pull = other.w * inverse * inverse * inverse;
            force.x = fmaf(pull, dx, force.x);
            force.y = fmaf(pull, dy, force.y);
            force.z = fmaf(pull, dz, force.z);
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(force.x, force.y, force.z, 0.0f);
}

// 64 complex numbers per block by radix-2 Stockham passes.
extern "C" __global__ void fft64(const float2* in, float2* out) {
    __shared__ float2 data[2][64];
    const int t = threadIdx.x;
    data[0][t] = in[blockIdx.x * 64 + t];
    data[0][t + 32] = in[blockIdx.x * 64 + t + 32];
    int from = 0;
    for (int half = 1; half < 64; half *= 2) {
        __syncthreads();
        const int k = t & (half - 1);
        float sine, cosine;
        sincospif(-(float)k / half, &sine, &cosine);
        const float2 a = data[from][t], b = data[from][t + 32];
        const float2 turned = {b.x * cosine - b.y * sine, b.x * sine + b.y * cosine};
        const int to = (t - k) * 2 + k;
        data[1 - from][to] = {a.x + turned.x, a.y + turned.y};
        data[1 - from][to + half] = {a.x - turned.x, a.y - turned.y};
        from = 1 - from;
    }
    __syncthreads();
    out[blockIdx.x * 64 + t] = data[from][t];
    out[blockIdx.x * 64 + t + 32] = data[from][t + 32];
}

// In place, one matrix of up to 32x32 per warp, one row per lane.
extern "C" __global__ void cholesky(double* matrices, int n, int* failed) {
    double* a = matrices + blockIdx.x * n * n;
    const int row = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        if (row == k) {
            if (!(a[k * n + k] > 0.0)) atomicExch(failed, k + 1);
            a[k * n + k] = sqrt(a[k * n + k]);
        }
        __syncwarp();
        if (row > k && row < n) a[row * n + k] /= a[k * n + k];
        __syncwarp();
        if (row > k && row < n)
            for (int j = k + 1; j <= row; ++j) a[row * n + j] -= a[row * n + k] * a[j * n + k];
        __syncwarp();
        if (row < k && row < n) a[row * n + k] = 0.0;
    }
}

extern "C" __global__ void mandelbrot(unsigned char* out, int width, int height, int limit) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float re = -2.0f + 3.0f * x / width, im = -1.5f + 3.0f * y / height;
    float a = 0.0f, b = 0.0f;
    int i = 0;
    while (i < limit && a * a + b * b < 4.0f) {
        const float next = a * a - b * b + re;
        b = 2.0f * a * b + im;
        a = next;
        ++i;
    }
    out[y * width + x] = i;
}
