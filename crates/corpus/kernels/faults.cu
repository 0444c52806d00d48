// Kernels that the device must stop, each with the error every driver reports for it.

extern "C" __global__ void far_read(int* out, int far) {
    // A terabyte behind the buffer: nothing is mapped there.
    out[threadIdx.x] = out[threadIdx.x + ((long long)far << 38)];
}

extern "C" __global__ void far_write(int* out, int far) {
    out[threadIdx.x + ((long long)far << 38)] = 1;
}

extern "C" __global__ void null_write(int* out, int far) {
    // Not a null pointer that the compiler can see: it would take the other branch.
    int* nowhere = (int*)(long long)(far - 1);
    nowhere[threadIdx.x] = 1;
}

extern "C" __global__ void misaligned(int* out, int far) {
    *(int*)((char*)out + far + 4 * threadIdx.x) = 1;
}

extern "C" __global__ void trapped(int* out, int far) {
    if (far) __trap();
    out[threadIdx.x] = far;
}

extern "C" __global__ void shared_overrun(int* out, int far) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = far;
    __syncthreads();
    // Far behind the largest shared memory a block can have.
    out[threadIdx.x] = tile[threadIdx.x + (far << 20)];
}
