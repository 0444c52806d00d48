/*---
[[launch]]
memset = "ticket"
byte = 0
[[launch]]
memset = "state"
byte = 0
[[launch]]
kernel = "k"
grid = ["R * cdiv(C, 256)"]
block = [256]
args = ["x", "y", "ticket", "state", "R", "C"]

[workspace.ticket]
dtype = "i32"
shape = [1]
[workspace.state]
dtype = "i64"
shape = ["R", "cdiv(C, 256)"]
---*/
extern "C" __global__ void k(const signed char* x, int* y, int* ticket, unsigned long long* state, int R, int C) {
    // A single pass with decoupled look-back: value and status in one word, tiles in the order of their tickets.
    __shared__ int tile_shared, before_shared, totals[8];
    if (threadIdx.x == 0) tile_shared = atomicAdd(ticket, 1);
    __syncthreads();
    const int tiles = (C + 255) / 256;
    const int row = tile_shared / tiles, tile = tile_shared % tiles;
    const int c = tile * 256 + threadIdx.x;
    int sum = c < C ? x[size_t(row) * C + c] : 0;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    int all = 0, offset = 0;
    for (int w = 0; w < 8; ++w) { if (w < warp) offset += totals[w]; all += totals[w]; }
    if (threadIdx.x == 0) {
        unsigned long long* const own = state + size_t(row) * tiles;
        const unsigned long long shown = (unsigned long long)(unsigned)all;
        atomicExch(&own[tile], (tile == 0 ? 2ull << 32 : 1ull << 32) | shown);
        int before = 0;
        for (int at = tile - 1; at >= 0;) {
            const unsigned long long seen = atomicAdd(&own[at], 0ull);
            if (seen >> 32 == 0) continue;
            before += int(unsigned(seen));
            if (seen >> 32 == 2) break;
            --at;
        }
        if (tile != 0) atomicExch(&own[tile], 2ull << 32 | (unsigned long long)(unsigned)(before + all));
        before_shared = before;
    }
    __syncthreads();
    if (c < C) {
        /*@out*/ y[size_t(row) * C + c] = before_shared + offset + sum;
    }
}
