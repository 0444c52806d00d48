/*---
[[launch]]
kernel = "k"
grid = ["R"]
block = [32]
args = ["x", "y", "R", "C"]
---*/
extern "C" __global__ void k(const signed char* x, int* y, int R, int C){
    // Four elements of a lane by dot products with prefixes of ones.
    const signed char* row = x + size_t(blockIdx.x) * C;
    int carry = 0;
    for (int begin = 0; begin < C; begin += 128) {
        int packed = 0;
        for (int i = 0; i < 4; ++i) {
            const int c = begin + threadIdx.x * 4 + i;
            packed |= (c < C ? int((unsigned char)row[c]) : 0) << (8 * i);
        }
        const int own[4] = {__dp4a(packed, 0x00000001, 0), __dp4a(packed, 0x00000101, 0), __dp4a(packed, 0x00010101, 0),
                            __dp4a(packed, 0x01010101, 0)};
        int before = own[3];
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, before, d);
            if (threadIdx.x >= d) before += other;
        }
        const int all = __shfl_sync(0xffffffffu, before, 31);
        before -= own[3];
        for (int i = 0; i < 4; ++i) {
            const int c = begin + threadIdx.x * 4 + i;
            if (c < C) /*@out*/ y[size_t(blockIdx.x) * C + c] = carry + before + own[i];
        }
        carry += all;
    }
}
