// Inclusive prefix sum of one array in three launches.
#include <cuda.h>
#include <stdio.h>
#include <assert.h>

const int THREADS = 256;

__global__ void scan_blocks(const float *input, float *output, float *block_sums, unsigned int n) {
    extern __shared__ float temp[];
    unsigned int i = blockIdx.x * THREADS + threadIdx.x;
    temp[threadIdx.x] = i < n ? input[i] : 0.0f;
    __syncthreads();
    for (unsigned int offset = 1; offset < THREADS; offset *= 2) {
        float add = threadIdx.x >= offset ? temp[threadIdx.x - offset] : 0.0f;
        __syncthreads();
        temp[threadIdx.x] += add;
        __syncthreads();
    }
    if (i < n) output[i] = temp[threadIdx.x];
    if (threadIdx.x == THREADS - 1) block_sums[blockIdx.x] = temp[threadIdx.x];
}

__global__ void scan_sums(float *sums, int blocks) {
    if (threadIdx.x == 0) {
        float running = 0.0f;
        for (int b = 0; b < blocks; ++b) { float s = sums[b]; sums[b] = running; running += s; }
    }
}

__global__ void add_offsets(float *output, const float *offsets, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] += offsets[blockIdx.x];
}

void inclusive_scan(const float *d_input, float *d_output, unsigned int n) {
    float *d_sums;
    const int blocks = (n + THREADS - 1) / THREADS;
    cudaMalloc((void **)&d_sums, blocks * sizeof(float));
    scan_blocks<<<blocks, THREADS, THREADS * sizeof(float)>>>(d_input, d_output, d_sums, n);
    scan_sums<<<1, 32>>>(d_sums, blocks);
    add_offsets<<<blocks, THREADS>>>(d_output, d_sums, n);
    assert(cudaGetLastError() == cudaSuccess);
    cudaFree(d_sums);
}
