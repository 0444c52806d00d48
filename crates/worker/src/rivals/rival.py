"""What a script in a task's `baselines` folder needs to be timed beside candidates.

    import rival

    def prepare(job):
        torch = rival.torch()
        q, k, v = (job.tensor(name) for name in "qkv")
        def execute():
            return {"o": torch.nn.functional.scaled_dot_product_attention(q, k, v)}
        return f"PyTorch {torch.__version__}", execute

    rival.serve(prepare)

`prepare` raises `rival.NotRun` where something is missing. One execution is timed like one of a
candidate: over a flushed cache, between two events of its own on one stream. Nothing is printed to
the socket but the reply; standard output and error are for people.
"""

import json
import os
import socket
import struct
import sys


class NotRun(Exception):
    """Something is missing here; its text says what, and how to get it."""


class Job:
    """One case of a task."""

    def __init__(self, body, case):
        self.case = case["case"]
        self.dims = case["dims"]
        self.scalars = case["scalars"]
        self.executions = body["executions"]
        self.flush_bytes = body["flush_bytes"]
        self.inputs = {one["name"]: one for one in case["inputs"]}
        self.outputs = case["outputs"]

    def bytes(self, name):
        """An input's bytes, little-endian, in index order."""
        with open(self.inputs[name]["file"], "rb") as file:
            return file.read()

    def tensor(self, name):
        """An input as a tensor of PyTorch on the GPU."""
        found = torch()
        kinds = {
            "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
            "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64",
        }
        one = self.inputs[name]
        if one["dtype"] not in kinds:
            raise NotRun(f"PyTorch has no elements like {one['dtype']}")
        kind = getattr(found, kinds[one["dtype"]])
        flat = found.frombuffer(bytearray(self.bytes(name)), dtype=kind)
        return flat.reshape(one["extents"]).cuda()


def torch():
    """PyTorch with a GPU that it can use."""
    try:
        import torch as found
    except ImportError as error:
        raise NotRun(f"PyTorch does not load ({error}): python3 -m pip install torch") from error
    if not found.cuda.is_available():
        raise NotRun("PyTorch finds no GPU that it can use")
    return found


def timed_by_events(job, execute):
    """Microseconds of each execution, by events around it, over a flushed cache."""
    found = torch()
    flush = found.empty(max(job.flush_bytes, 1), dtype=found.int8, device="cuda")
    spans = []
    for _ in range(job.executions):
        flush.zero_()
        # Keeps the device busy while Python enqueues: what lies between the events is then the
        # library's work alone, not Python's.
        found.cuda._sleep(1_000_000)
        begin, end = (found.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        execute()
        end.record()
        found.cuda.synchronize()
        spans.append(begin.elapsed_time(end) * 1e3)
    return spans


def bytes_of(output):
    """The bytes of an output: of a tensor of PyTorch, or as they are."""
    if isinstance(output, (bytes, bytearray)):
        return bytes(output)
    found = torch()
    return output.detach().contiguous().cpu().view(found.uint8).numpy().tobytes()


def serve(prepare, timed=timed_by_events):
    """Reads the question, and for each case prepares, executes once for the outputs, and times."""
    wire = socket.socket(fileno=os.dup(0))
    nonce, jobs = receive(wire)
    what, spans = "", []
    try:
        for job in jobs:
            what, execute = prepare(job)
            for name, output in execute().items():
                with open(os.path.join(job.outputs, name + ".bin"), "wb") as file:
                    file.write(bytes_of(output))
            spans.append(timed(job, execute))
        body = {"kind": "timed", "what": what, "microseconds": spans}
    except NotRun as missing:
        body = {"kind": "not_run", "reason": str(missing)}
    text = json.dumps({"nonce": nonce, "body": body}).encode()
    wire.sendall(struct.pack("<I", len(text)) + text)


def receive(wire):
    """The nonce and a job for each case."""
    (length,) = struct.unpack("<I", exactly(wire, 4))
    envelope = json.loads(exactly(wire, length))
    body = envelope["body"]
    return envelope["nonce"], [Job(body, case) for case in body["cases"]]


def exactly(wire, count):
    """So many bytes."""
    got = b""
    while len(got) < count:
        piece = wire.recv(count - len(got))
        if not piece:
            sys.exit("the supervisor is gone")
        got += piece
    return got
