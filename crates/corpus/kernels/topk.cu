// The largest k of each row by repeated warp reductions, the row maximum by a packed atomic, and expert routing.
extern "C" __global__ void top_k(const float* x, float* values, int* indices, int columns, int k) {
    const int row = blockIdx.x, lane = threadIdx.x;
    unsigned long long taken = 0;
    for (int rank = 0; rank < k; ++rank) {
        float best = -3.0e38f;
        int where = -1;
        for (int i = lane, mine = 0; i < columns; i += 32, ++mine)
            if (!(taken >> mine & 1) && x[row * columns + i] > best) {
                best = x[row * columns + i];
                where = i;
            }
        for (int step = 16; step > 0; step >>= 1) {
            const float other = __shfl_xor_sync(0xffffffff, best, step);
            const int there = __shfl_xor_sync(0xffffffff, where, step);
            if (other > best || (other == best && there < where && there >= 0)) {
                best = other;
                where = there;
            }
        }
        if (where >= 0 && where % 32 == lane) taken |= 1ull << (where / 32);
        if (lane == 0) {
            values[row * k + rank] = best;
            indices[row * k + rank] = where;
        }
    }
}

// Orders floats as unsigned numbers; the index is complemented so that the first of equals wins.
extern "C" __global__ void arg_max(const float* x, unsigned long long* best, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long mine = 0;
    if (i < n) {
        const unsigned bits = __float_as_uint(x[i]);
        const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        mine = (unsigned long long)ordered << 32 | (unsigned)~i;
    }
    for (int step = 16; step > 0; step /= 2) {
        const unsigned long long other = __shfl_down_sync(~0u, mine, step);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % 32 == 0) atomicMax(best, mine);
}

// Each token goes to its two best experts; places in the experts' queues are handed out a warp at a time.
extern "C" __global__ void route(const float* logits, int* expert_of, float* weight_of, int* places, int* counts, int tokens, int experts) {
    const int token = blockIdx.x * blockDim.x + threadIdx.x;
    const bool here = token < tokens;
    int first = 0, second = -1;
    if (here) {
        const float* row = logits + token * experts;
        for (int e = 1; e < experts; ++e)
            if (row[e] > row[first]) {
                second = first;
                first = e;
            } else if (second < 0 || row[e] > row[second]) {
                second = e;
            }
        const float share = 1.0f / (1.0f + __expf(row[second] - row[first]));
        expert_of[2 * token] = first;
        expert_of[2 * token + 1] = second;
        weight_of[2 * token] = share;
        weight_of[2 * token + 1] = 1.0f - share;
    }
    const unsigned active = __ballot_sync(~0u, here);
    if (!here) return;
    const unsigned same = __match_any_sync(active, first);
    const int leader = __ffs(same) - 1, lane = threadIdx.x % 32;
    int base = 0;
    if (lane == leader) base = atomicAdd(&counts[first], __popc(same));
    places[token] = __shfl_sync(same, base, leader) + __popc(same & ((1u << lane) - 1));
}
