// Integers of all widths, jump tables, 64-bit arithmetic, byte permutes, warp reductions, and text.
extern "C" __global__ void integers(const int* x, long long* wide, unsigned* narrow, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < count ? x[i] : 0;
    long long result = 0;
    switch (i % 7) {
        case 0: result = (long long)value * 1234567891011LL; break;
        case 1: result = value / 7 + value % 11; break;
        case 2: result = __mulhi(value, 0x12345678); break;
        case 3: result = (unsigned long long)(unsigned)value / 13ull; break;
        case 4: result = ((long long)value << 20) >> 7; break;
        case 5: result = __dp4a(value, 0x01ff0302, -5); break;
        default: result = __byte_perm(value, 0x11223344, 0x5140); break;
    }
    const unsigned total = __reduce_add_sync(0xffffffffu, (unsigned)value);
    if (i < count) {
        wide[i] = result;
        narrow[i] = __popc(value) + 100 * __clz(value) + 10000 * (total & 0xffff);
    }
    if (i == 5) printf("value %d of %s is %lld, %5.2f\n", i, "x", result, 0.5 * value);
}
