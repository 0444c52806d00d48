// Calls exported JAX handlers as XLA calls them, through its C interface, with device memory and a stream of
// the driver: JAX itself runs only on a GPU here. Words: handler and folder of inputs, in pairs.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuStreamCreate(void**, unsigned);
int cuStreamSynchronize(void*);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuMemcpyHtoD_v2(unsigned long long, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, unsigned long long, std::size_t);

XLA_FFI_Error* scan_ffi(XLA_FFI_CallFrame*);
XLA_FFI_Error* rms_norm_ffi(XLA_FFI_CallFrame*);
XLA_FFI_Error* gemv_int8_ffi(XLA_FFI_CallFrame*);
}

struct XLA_FFI_Error {
    XLA_FFI_Error_Code code;
    std::string message;
};

// The state of one call.
struct XLA_FFI_ExecutionContext {
    void* stream;
    bool has_memory;
    std::size_t allocated, freed;
};

static int failures = 0;
static void require(bool holds, const std::string& what) {
    if (!holds) std::printf("FAILED %s\n", what.c_str()), ++failures;
}

static void* allocate(std::size_t bytes) {
    unsigned long long address = 0;
    require(cuMemAlloc_v2(&address, bytes ? bytes : 1) == 0, "allocate");
    return reinterpret_cast<void*>(address);
}

static XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
    return new XLA_FFI_Error{args->errc, args->message};
}
static void get_message(XLA_FFI_Error_GetMessage_Args* args) { args->message = args->error->message.c_str(); }
static void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }
static XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
    args->stream = args->ctx->stream;
    return nullptr;
}
static XLA_FFI_Error* allocate_memory(XLA_FFI_DeviceMemory_Allocate_Args* args) {
    if (!args->ctx->has_memory) return new XLA_FFI_Error{XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "none is left"};
    args->data = allocate(args->size);
    args->ctx->allocated += args->size;
    return nullptr;
}
static XLA_FFI_Error* free_memory(XLA_FFI_DeviceMemory_Free_Args* args) {
    require(cuMemFree_v2(reinterpret_cast<unsigned long long>(args->data)) == 0, "free");
    args->ctx->freed += args->size;
    return nullptr;
}

static XLA_FFI_Api make_api() {
    XLA_FFI_Api api{};
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    api.XLA_FFI_Error_Create = create_error;
    api.XLA_FFI_Error_GetMessage = get_message;
    api.XLA_FFI_Error_Destroy = destroy_error;
    api.XLA_FFI_Stream_Get = get_stream;
    api.XLA_FFI_DeviceMemory_Allocate = allocate_memory;
    api.XLA_FFI_DeviceMemory_Free = free_memory;
    return api;
}

static XLA_FFI_DataType dtype(const std::string& name) {
    if (name == "f32") return XLA_FFI_DataType_F32;
    if (name == "i8") return XLA_FFI_DataType_S8;
    require(false, "the dtype " + name);
    return XLA_FFI_DataType_INVALID;
}

// A tensor of one execution in device memory.
struct Tensor {
    std::string name;
    bool is_output;
    std::size_t bytes;
    XLA_FFI_DataType type;
    std::vector<std::int64_t> extents;
    void* memory;

    XLA_FFI_Buffer buffer() {
        return {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, type, memory, std::int64_t(extents.size()), extents.data()};
    }
};

static std::vector<Tensor> read_tensors(const std::string& folder) {
    std::map<std::string, Tensor> described;
    std::ifstream shapes(folder + "/shapes.txt");
    for (std::string line; std::getline(shapes, line);) {
        std::istringstream words(line);
        std::string name, type;
        words >> name >> type;
        const std::istream_iterator<std::int64_t> first(words), last;
        described[name] = {name, false, 0, dtype(type), {first, last}, nullptr};
    }
    std::vector<Tensor> tensors;
    std::ifstream directions(folder + "/tensors.txt");
    std::string name, direction;
    std::size_t bytes = 0;
    while (directions >> name >> direction >> bytes) {
        Tensor tensor = described.at(name);
        tensor.is_output = direction == "out", tensor.bytes = bytes, tensor.memory = allocate(bytes);
        if (!tensor.is_output) {
            std::ifstream file(folder + "/" + name, std::ios::binary);
            const std::vector<char> values((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
            const auto address = reinterpret_cast<unsigned long long>(tensor.memory);
            require(values.size() == bytes && cuMemcpyHtoD_v2(address, values.data(), bytes) == 0, "upload " + name);
        }
        tensors.push_back(tensor);
    }
    return tensors;
}

static std::unique_ptr<XLA_FFI_Error> call(XLA_FFI_Handler* handler, std::vector<Tensor>& tensors,
                                           XLA_FFI_ExecutionContext& context) {
    static const XLA_FFI_Api api = make_api();
    std::vector<XLA_FFI_Buffer> inputs, outputs;
    for (Tensor& tensor : tensors) (tensor.is_output ? outputs : inputs).push_back(tensor.buffer());
    std::vector<XLA_FFI_ArgType> argument_types(inputs.size(), XLA_FFI_ArgType_BUFFER);
    std::vector<XLA_FFI_RetType> result_types(outputs.size(), XLA_FFI_RetType_BUFFER);
    std::vector<void*> arguments, results;
    for (XLA_FFI_Buffer& buffer : inputs) arguments.push_back(&buffer);
    for (XLA_FFI_Buffer& buffer : outputs) results.push_back(&buffer);
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &api, frame.ctx = &context, frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, std::int64_t(inputs.size()), argument_types.data(), arguments.data()};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, std::int64_t(outputs.size()), result_types.data(), results.data()};
    frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 0, nullptr, nullptr, nullptr};
    std::unique_ptr<XLA_FFI_Error> error(handler(&frame));
    require(context.allocated == context.freed, "the handler frees its scratch memory");
    return error;
}

static void refuses(std::unique_ptr<XLA_FFI_Error> error, XLA_FFI_Error_Code code, const std::string& words) {
    require(error && error->code == code && error->message.find(words) != std::string::npos,
            "found " + (error ? error->message : "no error") + ", wanted " + words);
}

int main(int count, char** words) {
    void *context = nullptr, *stream = nullptr;
    require(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0, "a context");
    require(cuStreamCreate(&stream, 1) == 0, "a stream that does not wait for others");
    const std::map<std::string, XLA_FFI_Handler*> handlers{
        {"scan", scan_ffi}, {"rms_norm", rms_norm_ffi}, {"gemv_int8", gemv_int8_ffi}};
    for (int at = 1; at + 1 < count; at += 2) {
        const std::string name = words[at], folder = words[at + 1];
        XLA_FFI_Handler* handler = handlers.at(name);
        std::vector<Tensor> tensors = read_tensors(folder);
        XLA_FFI_ExecutionContext execution{stream, true, 0, 0};
        const auto error = call(handler, tensors, execution);
        require(!error, name + ": " + (error ? error->message : ""));
        require(cuStreamSynchronize(stream) == 0, "wait");
        for (const Tensor& tensor : tensors) {
            if (!tensor.is_output) continue;
            std::vector<char> values(tensor.bytes);
            const auto address = reinterpret_cast<unsigned long long>(tensor.memory);
            require(cuMemcpyDtoH_v2(values.data(), address, tensor.bytes) == 0, "download " + tensor.name);
            std::ofstream(folder + "/" + tensor.name, std::ios::binary).write(values.data(), std::streamsize(tensor.bytes));
        }
        if (name == "scan") {
            require(execution.allocated > 0, "scan takes its workspace from XLA");
            XLA_FFI_ExecutionContext full{stream, false, 0, 0};
            refuses(call(handler, tensors, full), XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no scratch memory");
        }
        std::vector<Tensor> other = tensors;
        ++other.back().extents[0];
        refuses(call(handler, other, execution), XLA_FFI_Error_Code_INVALID_ARGUMENT, "does not fit the others");
        other = tensors;
        other.front().extents.push_back(1);
        refuses(call(handler, other, execution), XLA_FFI_Error_Code_INVALID_ARGUMENT, "axes");
        other = tensors;
        other.front().type = XLA_FFI_DataType_F64;
        refuses(call(handler, other, execution), XLA_FFI_Error_Code_INVALID_ARGUMENT, "");
        for (const Tensor& tensor : tensors) cuMemFree_v2(reinterpret_cast<unsigned long long>(tensor.memory));
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
