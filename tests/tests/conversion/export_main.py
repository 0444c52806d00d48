"""Launches exported plans with the loader for Python, on inputs from files. `lab` calls it."""

import importlib.util
import os
import pathlib

from cuda.bindings import driver as cuda


def loader(folder):
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(load, plan, folder):
    kernel = load.Kernel(plan)
    lines = [line.split() for line in (folder / "dims.txt").read_text().splitlines()]
    dims = {name: int(value) for name, value in lines}
    tensors, outputs = {}, []
    for line in (folder / "tensors.txt").read_text().splitlines():
        name, direction, size = line.split()
        tensors[name] = int(load.call(cuda.cuMemAlloc, max(int(size), 1)))
        if direction == "in":
            content = (folder / name).read_bytes()
            load.call(cuda.cuMemcpyHtoD, tensors[name], content, len(content))
        else:
            outputs.append((name, int(size)))
    refused = {name: -1 for name in dims}
    try:
        kernel.launch(refused, tensors)
        raise SystemExit("dims of -1 were launched")
    except ValueError as error:
        assert "nothing else was executed" in str(error), error
    workspace = int(load.call(cuda.cuMemAlloc, max(kernel.workspace_bytes(dims), 1)))
    kernel.launch(dims, tensors, workspace)
    load.call(cuda.cuCtxSynchronize)
    for name, size in outputs:
        content = bytearray(size)
        load.call(cuda.cuMemcpyDtoH, content, tensors[name], size)
        (folder / name).write_bytes(content)
    for address in [*tensors.values(), workspace]:
        load.call(cuda.cuMemFree, address)


def main():
    assert cuda.cuInit(0)[0] == cuda.CUresult.CUDA_SUCCESS
    error, context = cuda.cuDevicePrimaryCtxRetain(0)
    assert error == cuda.CUresult.CUDA_SUCCESS, error
    cuda.cuCtxSetCurrent(context)
    for line in os.environ["EXPORT_VECTORS"].splitlines():
        plan, folder = map(pathlib.Path, line.split("\t"))
        launch(loader(plan.parent), plan, folder)


main()
