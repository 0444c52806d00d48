// Bit work: a hash of many rotations, carries over 128 bits, Hamming distances, and a counter-based generator.
extern "C" __global__ void sha256_blocks(const unsigned* message, unsigned* digest) {
    const unsigned start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    static const unsigned k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
        0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
        0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
        0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
        0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
        0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto turn = [](unsigned x, int by) { return __funnelshift_r(x, x, by); };
    unsigned w[64], s[8];
    for (int t = 0; t < 16; ++t) w[t] = __byte_perm(message[i * 16 + t], 0, 0x0123);
    for (int t = 16; t < 64; ++t) {
        const unsigned a = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3;
        const unsigned b = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + a + w[t - 7] + b;
    }
    for (int j = 0; j < 8; ++j) s[j] = start[j];
    for (int t = 0; t < 64; ++t) {
        const unsigned one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[t] + w[t];
        const unsigned two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        for (int j = 7; j > 0; --j) s[j] = s[j - 1];
        s[4] += one;
        s[0] = one + two;
    }
    for (int j = 0; j < 8; ++j) digest[i * 8 + j] = s[j] + start[j];
}

// x * y + z of 128 bits, the quotient by a small number, and the shift by a variable distance.
extern "C" __global__ void wide(const unsigned long long* x, unsigned long long* out) {
    const int t = threadIdx.x;
    unsigned __int128 value = (unsigned __int128)x[t] * x[(t + 1) % blockDim.x] + x[(t + 2) % blockDim.x];
    unsigned __int128 shifted = value >> (t * 3 % 128);
    const unsigned __int128 total = value + shifted - (unsigned __int128)x[t];
    out[4 * t] = (unsigned long long)total;
    out[4 * t + 1] = (unsigned long long)(total >> 64);
    out[4 * t + 2] = __umul64hi(x[t], ~x[t]);
    out[4 * t + 3] = value > shifted ? (unsigned long long)(value >> 64) % 1000003 : 0;
}

extern "C" __global__ void hamming(const uint4* codes, const uint4* query, unsigned* distances, unsigned* nearest) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint4 a = codes[i], b = *query;
    unsigned distance = __popc(a.x ^ b.x) + __popc(a.y ^ b.y) + __popc(a.z ^ b.z) + __popc(a.w ^ b.w);
    distances[i] = distance;
    const unsigned least = __reduce_min_sync(~0u, distance);
    if (__ffs(__ballot_sync(~0u, distance == least)) - 1 == threadIdx.x % 32) atomicMin(nearest, distance << 16 | i);
}

// Philox-4x32-10: two uniform and two normal numbers per thread.
extern "C" __global__ void philox(float4* out, unsigned seed, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 c = {i, 0, 0, 0};
    uint2 key = {seed, 0x12345678};
    for (int round = 0; round < 10; ++round) {
        const unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        const unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = {h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0};
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    const float u = c.x * 2.3283064e-10f + 1.1641532e-10f, v = c.y * 2.3283064e-10f + 1.1641532e-10f;
    const float a = c.z * 2.3283064e-10f + 1.1641532e-10f, b = c.w * 2.3283064e-10f;
    const float radius = sqrtf(-2.0f * __logf(a));
    float sine, cosine;
    sincospif(2.0f * b, &sine, &cosine);
    out[i] = make_float4(u, v, radius * cosine, radius * sine);
}
