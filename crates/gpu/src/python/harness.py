"""Calls the function `reference` of a task's reference.py and returns its outputs as binary64.

The parent process sends frames on standard input: a little-endian length and JSON, after a call's
frame the bytes of its inputs. Answers go back in the same form over a copy of standard output, so
that what the reference prints cannot mix with them.
"""

import json
import linecache
import os
import struct
import sys

FILE = "reference.py"
LINES = 6


class Defect(Exception):
    """A defect of the reference; its text says how to mend it."""


def exactly(stream, count):
    content = stream.read(count)
    if len(content) != count:
        sys.exit(0)
    return content


def receive(stream):
    (length,) = struct.unpack("<I", exactly(stream, 4))
    return json.loads(exactly(stream, length))


def send(stream, message, contents=()):
    text = json.dumps(message).encode()
    stream.write(struct.pack("<I", len(text)) + text)
    for content in contents:
        stream.write(content)
    stream.flush()


def describe(error):
    """The end of an error's traceback, without the frames of this file."""
    import traceback

    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != "<string>"
    ]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    text = "".join(lines).rstrip().splitlines()
    return "\n".join(text[-LINES:])


def load(source):
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    space = {"__name__": "reference", "__file__": FILE}
    exec(compile(source, FILE, "exec"), space)
    function = space.get("reference")
    if not callable(function):
        raise Defect(f"{FILE} defines no function `reference`: add `def reference(...)`")
    return function


def choose_arguments(function, known):
    """The arguments that the function names, of those that the task has."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return known
    names = [one.name for one in parameters]
    for one in parameters:
        if one.name not in known and one.default is one.empty:
            raise Defect(
                f"the function `reference` has the parameter {one.name}, which is no input, dim or "
                f"scalar of the task; those are: {', '.join(sorted(known))}"
            )
    return {name: known[name] for name in names if name in known}


def as_output(numpy, name, value, extents):
    """An output's bytes."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = numpy.asarray(value)
    if array.dtype.kind in "biu":
        array = array.astype(numpy.float64)
    if array.dtype != numpy.float64:
        raise Defect(
            f"{name} has the type {array.dtype}, not float64: every input is float64, so a "
            "conversion in the reference lost precision; remove it"
        )
    if list(array.shape) != extents:
        raise Defect(
            f"{name} has the shape {list(array.shape)}, but the task says {extents}; reshape it, or "
            "correct task.toml"
        )
    return numpy.ascontiguousarray(array, dtype="<f8").tobytes()


def compute(numpy, function, call, contents):
    known = {**call["dims"], **call["scalars"]}
    for tensor, content in zip(call["inputs"], contents):
        array = numpy.frombuffer(bytearray(content), dtype="<f8")
        known[tensor["name"]] = array.reshape(tensor["extents"])
    # NaN and infinities are inputs like others.
    with numpy.errstate(all="ignore"):
        result = function(**choose_arguments(function, known))
    outputs = call["outputs"]
    if not isinstance(result, dict):
        if len(outputs) != 1:
            names = ", ".join(one["name"] for one in outputs)
            raise Defect(f"return a dict with one entry for each of {names}")
        result = {outputs[0]["name"]: result}
    answers = []
    for one in outputs:
        if one["name"] not in result:
            raise Defect(f"the returned dict has no {one['name']}; it has {sorted(result)}")
        answers.append(as_output(numpy, one["name"], result[one["name"]], one["extents"]))
    return answers


def attempt(action, wire):
    """The action's result; where it fails, sends why and ends."""
    try:
        return action()
    except Defect as defect:
        reason = str(defect)
    except ModuleNotFoundError as error:
        package = (error.name or "the module").split(".")[0]
        reason = (
            f"{describe(error)}\n{package} is not installed for {sys.executable}: "
            f"{sys.executable} -m pip install {package}, or name another interpreter in KERNELWRIGHT_PYTHON"
        )
    except MemoryError as error:
        reason = f"{describe(error)}\nthe limit on memory was reached; give the task smaller cases"
    except BaseException as error:
        reason = describe(error)
    send(wire, {"failed": reason})
    sys.exit(0)


def main():
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    stdin = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    begin = receive(stdin)
    import ctypes.util
    import importlib

    # It asks the linker and the compiler for a library's name. Neither may run here, and PyTorch, which calls it while
    # it is imported, knows what to do without an answer.
    ctypes.util.find_library = lambda name: None
    numpy = attempt(lambda: importlib.import_module("numpy"), wire)
    function = attempt(lambda: load(begin["source"]), wire)
    for _ in range(begin["calls"]):
        call = receive(stdin)
        contents = [exactly(stdin, 8 * one["elements"]) for one in call["inputs"]]
        answers = attempt(lambda: compute(numpy, function, call, contents), wire)
        if begin["twice"]:
            again = attempt(lambda: compute(numpy, function, call, contents), wire)
            for one, first, second in zip(call["outputs"], answers, again):
                if first != second:
                    reason = (
                        f"{one['name']} differs between two calls with the same inputs; let the "
                        "reference use no random numbers and keep nothing between calls"
                    )
                    send(wire, {"failed": reason})
                    return
        send(wire, {"failed": None}, answers)


main()
