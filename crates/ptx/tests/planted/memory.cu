// One mistake per kernel, in what memory it touches. Every kernel takes 256 initialised numbers in `a`, as many that
// nobody initialised in `b`, and 256 to write in `out`. A comment before a kernel says how it is launched; `BUG` marks
// the line of its finding and the kind, `OTHER` the line of the other party.

// block 64
extern "C" __global__ void reads_past_the_end(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x + n - 63];  // BUG out_of_bounds_read
}

// grid 5, block 64
extern "C" __global__ void forgets_the_guard(const int* a, int* b, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 1;  // BUG out_of_bounds_write
}

// block 64
extern "C" __global__ void steps_back_too_far(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x] + a[(int)threadIdx.x - 1];  // BUG out_of_bounds_read
}

// block 1
extern "C" __global__ void follows_null(const int* a, int* b, int* out, int n) {
    const int* p = n > 1000 ? a : nullptr;
    out[0] = *(volatile const int*)p;  // BUG illegal_address
}

// block 32
extern "C" __global__ void vectors_off_by_one(const int* a, int* b, int* out, int n) {
    const int4 v = *reinterpret_cast<const int4*>(a + threadIdx.x * 4 + 1);  // BUG misaligned
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// block 32
extern "C" __global__ void packed_rows_are_not_aligned(const int* a, int* b, int* out, int n) {
    __shared__ __align__(16) int rows[32 * 5];
    *reinterpret_cast<int2*>(&rows[threadIdx.x * 5]) = make_int2(a[threadIdx.x], 0);  // BUG misaligned
    __syncthreads();
    out[threadIdx.x] = rows[threadIdx.x * 5];
}

// block 64
extern "C" __global__ void one_row_too_many(const int* a, int* b, int* out, int n) {
    __shared__ int tile[63];
    tile[threadIdx.x] = a[threadIdx.x];  // BUG out_of_bounds_write
    __syncthreads();
    out[threadIdx.x] = tile[62 - threadIdx.x % 63];
}

// block 64, shared 128
extern "C" __global__ void asks_for_too_little(const int* a, int* b, int* out, int n) {
    extern __shared__ int dynamic[];
    dynamic[threadIdx.x] = a[threadIdx.x];  // BUG out_of_bounds_write
    __syncthreads();
    out[threadIdx.x] = dynamic[63 - threadIdx.x];
}

__constant__ int table[4] = {1, 2, 3, 4};

// block 1
extern "C" __global__ void writes_to_constants(const int* a, int* b, int* out, int n) {
    asm volatile("st.u32 [%0], %1;" :: "l"(table + a[1]), "r"(5) : "memory");  // BUG illegal_address
}

__device__ __noinline__ int deeper(int n, int depth) {
    volatile int kept[16];
    kept[n & 15] = depth;
    return n < 0 ? kept[3] : deeper(n, depth + 1) + kept[n & 15];  // BUG out_of_bounds_write
}

// block 1
extern "C" __global__ void never_stops_calling(const int* a, int* b, int* out, int n) {
    out[0] = deeper(n, 0);
}

// block 32
extern "C" __global__ void scratch_is_not_cleared(const int* a, int* b, int* out, int n) {
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];  // BUG uninitialised_store
}

// block 64
extern "C" __global__ void tail_of_the_tile_is_not_filled(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    if (threadIdx.x < 60) tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];  // BUG uninitialised_store
}

// block 32
extern "C" __global__ void garbage_decides(const int* a, int* b, int* out, int n) {
    if (b[threadIdx.x] > 7)  // BUG uninitialised_branch
        for (int i = 0; i < a[2]; ++i) out[threadIdx.x] = a[i];
}

// block 32
extern "C" __global__ void garbage_points(const int* a, int* b, int* out, int n) {
    const int where = b[threadIdx.x] & 31;  // BUG uninitialised_address
    out[threadIdx.x] = a[where];
}

// block 32
extern "C" __global__ void stack_is_not_filled(const int* a, int* b, int* out, int n) {
    int seen[8];
    for (int i = 0; i < a[7]; ++i) seen[a[i + 1] & 7] = i;
    out[threadIdx.x] = seen[a[threadIdx.x] & 7];  // BUG uninitialised_store
}

// block 64
extern "C" __global__ void output_is_not_covered(const int* a, int* b, int* out, int n) {  // BUG unwritten_output
    for (int i = threadIdx.x; i < n - 1; i += blockDim.x) out[i] = a[i];
}

// block 64
extern "C" __global__ void input_is_changed(const int* a, int* b, int* out, int n) {  // BUG written_input
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = a[i] + 1;
        const_cast<int*>(a)[i] = 0;
    }
}

// block 64
extern "C" __global__ void row_runs_into_the_next_array(const int* a, int* b, int* out, int n) {
    __shared__ int left[64];
    __shared__ int right[64];
    right[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    left[threadIdx.x + 1] = a[64 + threadIdx.x];  // BUG out_of_bounds_write
    __syncthreads();
    out[threadIdx.x] = left[threadIdx.x / 2 + 1] + right[63 - threadIdx.x];
}

// block 64
extern "C" __global__ void garbage_goes_through_a_tile(const int* a, int* b, int* out, int n) {
    __shared__ int tile[64];
    tile[threadIdx.x] = b[threadIdx.x];  // BUG uninitialised_store
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x] + a[threadIdx.x];
}
