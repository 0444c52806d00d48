"""Traces the modules of exported kernels in JAX and lowers them for CUDA. The modules compile their handlers and
register them in XLA; nothing is launched. `lab` calls it."""

import functools
import importlib.util
import os
import pathlib

import jax

TYPES = {"f32": jax.numpy.float32, "i8": jax.numpy.int8}
NAMES = {jax.numpy.dtype(dtype): name for name, dtype in TYPES.items()}


@functools.cache
def load(path):
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def check(path, folder):
    shapes = {}
    for line in (folder / "shapes.txt").read_text().splitlines():
        name, dtype, *extents = line.split()
        shapes[name] = jax.ShapeDtypeStruct([int(extent) for extent in extents], TYPES[dtype])
    directions = [line.split()[:2] for line in (folder / "tensors.txt").read_text().splitlines()]
    inputs = [shapes[name] for name, direction in directions if direction == "in"]
    (output,) = [shapes[name] for name, direction in directions if direction == "out"]
    kernel = getattr(load(path), path.stem)
    traced = jax.jit(functools.partial(kernel, output)).trace(*inputs)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    tensors = [f"tensor<{'x'.join(map(str, shape.shape))}x{NAMES[shape.dtype]}>" for shape in [*inputs, output]]
    wanted = f": ({', '.join(tensors[:-1])}) -> {tensors[-1]}"
    (call,) = [line for line in text.splitlines() if f"@{path.stem}(" in line and "custom_call" in line]
    assert call.endswith(wanted), f"{call}, not {wanted}"


pairs = [line.split("\t") for line in os.environ["EXPORT_VECTORS"].splitlines()]
assert pairs
for plan, folder in pairs:
    check(pathlib.Path(plan).with_suffix(".py"), pathlib.Path(folder))
