// Chooses between exported kernels by shape, launches one of them, and is refused where none fits.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "scan.h"

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemcpyHtoD_v2(unsigned long long, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, unsigned long long, std::size_t);
int cuCtxSynchronize();
}

static int failures = 0;
static void require(bool holds, const char* what) {
    if (!holds) std::printf("FAILED %s\n", what), ++failures;
}

static void* allocate(std::size_t bytes) {
    unsigned long long address = 0;
    require(cuMemAlloc_v2(&address, bytes ? bytes : 1) == 0, "allocate");
    return reinterpret_cast<void*>(address);
}

static void scan_of(std::int64_t n) {
    const std::vector<float> ones(n, 1.0f);
    std::vector<float> sums(n);
    const std::size_t bytes = n * sizeof(float);
    void* input = allocate(bytes);
    void* output = allocate(bytes);
    cuMemcpyHtoD_v2(reinterpret_cast<unsigned long long>(input), ones.data(), bytes);
    const scan::Dims dims{n};
    const std::size_t size = scan::workspace_bytes(dims);
    require(size > 0, "the chosen kernel needs a workspace");
    const char* reason = scan::launch(dims, {input, output}, allocate(size), size, nullptr);
    require(!reason, reason ? reason : "");
    cuCtxSynchronize();
    cuMemcpyDtoH_v2(sums.data(), reinterpret_cast<unsigned long long>(output), bytes);
    for (std::int64_t at = 0; at < n; ++at) require(sums[at] == float(at + 1), "a sum");
}

int main() {
    require(scan::choice({50}) == 0, "few elements have a kernel of their own");
    require(scan::choice({100}) == 0, "the last of its shapes");
    require(scan::choice({101}) == 1, "the others have the main kernel");
    require(scan::choice({0}) == -1 && scan::choice({1000000000}) == -1, "none covers these dims");
    const char* reason = scan::refusal({0});
    require(reason && std::strstr(reason, "n must be 1 to "), "the reason is told");
    require(scan::workspace_bytes({0}) == 0, "no workspace where none fits");
    require(scan::launch({0}, {}, nullptr, 0, nullptr) != nullptr, "it is not launched");
    void* context = nullptr;
    require(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0, "a context");
    scan_of(50);
    scan_of(300);
    return failures != 0;
}
