// Reads a row of any length and alignment with 16-byte loads: `use(index, value)` is called once for each element,
// by the threads of a block together. Elements before the first 16-byte boundary and after the last whole vector are
// read one at a time. A block has at least 4 threads.
template <typename Use>
__device__ __forceinline__ void read_row(const float *__restrict__ row, int count, Use use) {
    const int thread = threadIdx.x, threads = blockDim.x;
    const int to_boundary = int((16 - (size_t(row) & 15)) & 15) / 4;
    const int head = min(to_boundary, count);
    const int vectors = (count - head) / 4;
    const int tail = head + 4 * vectors;
    const float4 *fours = reinterpret_cast<const float4 *>(row + head);
    if (thread < head) use(thread, row[thread]);
#pragma unroll 4
    for (int v = thread; v < vectors; v += threads) {
        const float4 four = fours[v];
        const int at = head + 4 * v;
        use(at, four.x);
        use(at + 1, four.y);
        use(at + 2, four.z);
        use(at + 3, four.w);
    }
    if (tail + thread < count) use(tail + thread, row[tail + thread]);
}
