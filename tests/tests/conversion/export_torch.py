"""Calls exported PyTorch operators on inputs from files, with a stand-in for PyTorch that has the few functions
which an operator uses. `lab` calls it. Tensors are device memory of the emulated device's driver."""

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import sys
import types

cuda = ctypes.CDLL("libcuda.so.1")
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8}
NAMES = dict(zip(SIZES, ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64"]))


def check(error):
    assert error == 0, f"the driver's error {error}"


class Tensor:
    def __init__(self, shape, dtype, device):
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.bytes = SIZES[dtype]
        for extent in self.shape:
            self.bytes *= extent
        self.address = ctypes.c_uint64()
        if device.type == "cuda":
            check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(max(self.bytes, 1))))

    def dim(self):
        return len(self.shape)

    def data_ptr(self):
        return self.address.value

    def is_contiguous(self):
        return True

    def free(self):
        check(cuda.cuMemFree_v2(self.address))


class Operator:
    def __init__(self, function):
        self.function = function

    def __call__(self, *inputs):
        return self.function(*inputs)

    def register_fake(self, function):
        self.fake = function
        return function


def stand_in():
    torch = types.ModuleType("torch")
    torch.Tensor = Tensor
    for dtype, name in NAMES.items():
        setattr(torch, name, dtype)

    def empty(shape, dtype, device):
        return Tensor((shape,) if isinstance(shape, int) else shape, dtype, device)

    torch.empty = empty
    stream = types.SimpleNamespace(cuda_stream=0)
    torch.cuda = types.SimpleNamespace(device=lambda device: contextlib.nullcontext(), current_stream=lambda: stream)
    torch.library = types.SimpleNamespace(custom_op=lambda name, mutates_args: Operator)
    return torch


class EntryPoint:
    """The function of a Solution, which passes its arguments on to the operator."""

    def __init__(self, run, operator):
        self.run, self.function, self.fake = run, operator.function, operator.fake

    def __call__(self, *inputs):
        return self.run(*inputs)


def load(path, name):
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if path.name == "main.py":
        return EntryPoint(module.run, getattr(sys.modules[name], name))
    return getattr(module, name)


def call(operator, folder):
    device, meta = types.SimpleNamespace(type="cuda"), types.SimpleNamespace(type="meta")
    dims = dict(line.split() for line in (folder / "dims.txt").read_text().splitlines())
    shapes = {}
    for line in (folder / "shapes.txt").read_text().splitlines():
        name, dtype, *extents = line.split()
        shapes[name] = ([int(extent) for extent in extents], dtype)
    inputs, fakes, outputs = [], [], []
    for line in (folder / "tensors.txt").read_text().splitlines():
        name, direction, size = line.split()
        if direction == "out":
            outputs.append(name)
            continue
        tensor = Tensor(*shapes[name], device)
        assert tensor.bytes == int(size), name
        content = (folder / name).read_bytes()
        check(cuda.cuMemcpyHtoD_v2(tensor.address, content, ctypes.c_size_t(len(content))))
        inputs.append(tensor)
        fakes.append(Tensor(*shapes[name], meta))
    count = operator.function.__code__.co_argcount - len(inputs)
    numbers = [int(dims[name]) for name in operator.function.__code__.co_varnames[len(inputs) : len(inputs) + count]]
    result = operator(*inputs, *numbers)
    fake = operator.fake(*fakes, *numbers)
    results = result if isinstance(result, tuple) else (result,)
    assert [fake.shape] == [one.shape for one in results], "the fake operator gives another shape"
    wrong = Tensor([extent + 1 for extent in inputs[0].shape] + [1], inputs[0].dtype, meta)
    try:
        operator(wrong, *inputs[1:], *numbers)
        raise SystemExit("a tensor with another number of axes was launched")
    except ValueError:
        pass
    check(cuda.cuCtxSynchronize())
    for name, tensor in zip(outputs, results):
        content = ctypes.create_string_buffer(max(tensor.bytes, 1))
        check(cuda.cuMemcpyDtoH_v2(content, tensor.address, ctypes.c_size_t(tensor.bytes)))
        (folder / name).write_bytes(content.raw[: tensor.bytes])
    for tensor in [*inputs, *results]:
        tensor.free()


def main():
    context = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    sys.modules["torch"] = stand_in()
    operators = {}
    for line in os.environ["EXPORT_VECTORS"].splitlines():
        module, folder, name = line.split("\t")
        if module not in operators:
            operators[module] = load(pathlib.Path(module), name)
        call(operators[module], pathlib.Path(folder))


main()
