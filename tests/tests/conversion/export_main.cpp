// Launches exported kernels on inputs from files, and on what they must refuse.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gemv_int8.h"
#include "rms_norm.h"
#include "scan.h"

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuMemcpyHtoD_v2(unsigned long long, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, unsigned long long, std::size_t);
int cuCtxSynchronize();
int cuCtxGetLimit(std::size_t*, int);
}

static int failures = 0;
static void require(bool holds, const char* what) {
    if (!holds) std::printf("FAILED %s\n", what), ++failures;
}
static void same(const char* found, const char* wanted) {
    const bool holds = found ? wanted && std::strstr(found, wanted) : !wanted;
    if (!holds) std::printf("FAILED found %s, wanted %s\n", found ? found : "null", wanted ? wanted : "null"), ++failures;
}

// The folder of one execution, and its device memory.
struct Vector {
    std::string folder;
    std::vector<unsigned long long> allocations;

    ~Vector() {
        for (const unsigned long long address : allocations) cuMemFree_v2(address);
    }
    std::int64_t dim(const std::string& wanted) const {
        std::ifstream file(folder + "/dims.txt");
        std::string name;
        std::int64_t value = 0;
        while (file >> name >> value)
            if (name == wanted) return value;
        require(false, wanted.c_str());
        return 0;
    }
    void* allocate(std::size_t bytes) {
        unsigned long long address = 0;
        require(cuMemAlloc_v2(&address, bytes ? bytes : 1) == 0, "allocate");
        allocations.push_back(address);
        return reinterpret_cast<void*>(address);
    }
    void* read(const char* name) {
        std::ifstream file(folder + "/" + name, std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        void* memory = allocate(bytes.size());
        require(cuMemcpyHtoD_v2(reinterpret_cast<unsigned long long>(memory), bytes.data(), bytes.size()) == 0, "upload");
        return memory;
    }
    void write(const char* name, const void* memory, std::size_t bytes) {
        std::vector<char> values(bytes);
        require(cuCtxSynchronize() == 0, "wait");
        require(cuMemcpyDtoH_v2(values.data(), reinterpret_cast<unsigned long long>(memory), bytes) == 0, "download");
        std::ofstream(folder + "/" + name, std::ios::binary).write(values.data(), std::streamsize(bytes));
    }
};

static void run_scan(Vector& vector) {
    const scan::Dims dims{vector.dim("n")};
    const scan::Tensors tensors{vector.read("input"), vector.allocate(dims.n * 4)};
    const std::size_t bytes = scan::workspace_bytes(dims);
    require(bytes >= std::size_t((dims.n + 255) / 256) * 4, "the workspace holds a sum of every block");
    same(scan::launch(dims, tensors, vector.allocate(bytes), bytes, nullptr), nullptr);
    // Half of the output persists in the L2 cache.
    std::size_t set_aside = 0;
    require(cuCtxGetLimit(&set_aside, 6) == 0 && set_aside >= std::size_t(dims.n) * 2, "a part of the cache is set aside");
    vector.write("output", tensors.output, dims.n * 4);
}

static void run_rms_norm(Vector& vector) {
    rms_norm::Dims dims{};
    dims.rows = vector.dim("rows"), dims.hidden = vector.dim("hidden");
    const std::size_t bytes = dims.rows * dims.hidden * 4;
    rms_norm::Tensors tensors{};
    tensors.x = vector.read("x"), tensors.weight = vector.read("weight"), tensors.out = vector.allocate(bytes);
    require(rms_norm::workspace_bytes(dims) == 0, "no workspace");
    same(rms_norm::launch(dims, tensors, nullptr, 0, nullptr), nullptr);
    vector.write("out", tensors.out, bytes);
}

static void run_gemv_int8(Vector& vector) {
    gemv_int8::Dims dims{};
    dims.M = vector.dim("M"), dims.K = vector.dim("K");
    gemv_int8::Tensors tensors{};
    tensors.W = vector.read("W"), tensors.x = vector.read("x"), tensors.row_scale = vector.read("row_scale");
    tensors.y = vector.allocate(dims.M * 4);
    same(gemv_int8::launch(dims, tensors, nullptr, 0, nullptr), nullptr);
    vector.write("y", tensors.y, dims.M * 4);
}

// What is wrong is named before anything is launched.
static void test_refusals() {
    const scan::Tensors none{};
    same(scan::refusal({300}), nullptr);
    same(scan::refusal({0}), "n must be 1 to ");
    same(scan::launch({0}, none, nullptr, 0, nullptr), "n must be 1 to ");
    same(scan::launch({1000000000}, none, nullptr, 0, nullptr), "nothing else was executed");
    require(scan::workspace_bytes({0}) == 0, "no workspace for dims that are refused");
    same(scan::launch({300}, none, nullptr, 0, nullptr), "input must be device memory aligned to ");
    require(cuInit(0) == 0, "initialise");
    alignas(16) static float aligned[512] = {};
    same(scan::launch({300}, {aligned, aligned}, nullptr, 0, nullptr), "no CUDA context is current");
    void* context = nullptr;
    require(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0, "make a context");
    same(scan::launch({300}, {aligned, reinterpret_cast<char*>(aligned) + 1}, nullptr, 0, nullptr), "output must be device memory");
    same(scan::launch({300}, {aligned, aligned}, nullptr, 0, nullptr), "the workspace is smaller");
    same(scan::launch({300}, {aligned, aligned}, nullptr, 1 << 20, nullptr), "the workspace must be device memory");
    gemv_int8::Dims dims{};
    dims.M = 8, dims.K = 30;
    same(gemv_int8::refusal(dims), "K must be");
    rms_norm::Dims wide{};
    // Each dim is one that was executed, both together are not.
    wide.rows = 1, wide.hidden = 1;
    while (!rms_norm::refusal(wide)) ++wide.rows;
    --wide.rows;
    while (!rms_norm::refusal(wide)) ++wide.hidden;
    same(rms_norm::refusal(wide), "elements: nothing larger was executed");
}

int main(int count, char** words) {
    test_refusals();
    for (int at = 1; at + 1 < count; at += 2) {
        Vector vector{words[at + 1], {}};
        const std::string kernel = words[at];
        if (kernel == "scan") run_scan(vector);
        else if (kernel == "rms_norm") run_rms_norm(vector);
        else if (kernel == "gemv_int8") run_gemv_int8(vector);
        else require(false, words[at]);
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
