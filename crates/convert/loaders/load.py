"""Loads an exported kernel and launches it through cuda-python, in the current context."""
import ctypes, json, math, operator, pathlib
from cuda.bindings import driver as cuda

TYPES = {"address": ctypes.c_void_p, "i32": ctypes.c_int, "i64": ctypes.c_longlong, "f32": ctypes.c_float, "f64": ctypes.c_double}
SHARED, DEVICE = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, cuda.CUdevice_attribute
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "%": math.fmod, "<": operator.lt, "<=": operator.le,
              "==": operator.eq, "min": min, "max": max, "cdiv": lambda a, b: -(-a // b), "sqrt": math.sqrt,
              "exp2": lambda a: 2.0 ** a, "?": lambda a, b, c: b if a else c}


def call(function, *arguments):
    error, *values = function(*arguments)
    if error != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function.__name__}: {cuda.cuGetErrorString(error)[1].decode()}")
    return values[0] if values else None


def value(part, names, kind=int):
    if not isinstance(part, list):
        return kind(names[part] if isinstance(part, str) else part)
    operands = [value(inner, names, kind) for inner in part[1:]]
    if part[0] == "/":  # Whole numbers are truncated toward zero.
        a, b = operands
        return a / b if kind is float else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return kind(OPERATIONS[part[0]](*operands))


class Kernel:
    def __init__(self, path):
        path, device = pathlib.Path(path), call(cuda.cuCtxGetDevice)
        fact = lambda name: call(cuda.cuDeviceGetAttribute, getattr(DEVICE, "CU_DEVICE_ATTRIBUTE_" + name), device)
        self.plan, error = json.loads(path.read_text()), True
        if self.plan["compute_capability"] == 10 * fact("COMPUTE_CAPABILITY_MAJOR") + fact("COMPUTE_CAPABILITY_MINOR"):
            error, self.module = cuda.cuModuleLoadData(path.with_suffix(".cubin").read_bytes())
        if error:  # The driver compiles the PTX; the verdict is about the machine code.
            self.module = call(cuda.cuModuleLoadData, path.with_suffix(".ptx").read_bytes() + b"\0")

    def workspace_bytes(self, dims):
        return value(self.plan["workspace_bytes"], dims)

    def launch(self, dims, tensors, workspace=0, stream=0):
        names = dims | {"&" + name: address for name, address in tensors.items()} | {"&": workspace}
        for condition in self.plan["requires"]:
            if not value(condition["holds"], names):
                raise ValueError(condition["else"])
        for step in self.plan["steps"]:
            if "memset" in step:
                call(cuda.cuMemsetD8Async, value(step["memset"], names), step["byte"], value(step["bytes"], names), stream)
                continue
            function = call(cuda.cuModuleGetFunction, self.module, step["kernel"].encode())
            *extents, shared = (value(extent, names) for extent in step["extents"])
            call(cuda.cuFuncSetAttribute, function, SHARED, shared)
            kinds, parts = zip(*step["arguments"]) if step["arguments"] else ((), ())
            values = tuple(value(part, names, float if kind[0] == "f" else int) for kind, part in zip(kinds, parts))
            arguments = values, tuple(TYPES[kind] for kind in kinds)
            launch, extra = (cuda.cuLaunchCooperativeKernel, ()) if step["cooperative"] else (cuda.cuLaunchKernel, (0,))
            call(launch, function, *extents, shared, stream, arguments, *extra)
