"""Checks exported operators in PyTorch without a GPU: python operators.py RMS_NORM_FOLDER ADD_NORM_FOLDER."""

import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path[:0] = sys.argv[1:3]
import add_norm  # noqa: E402
import rms_norm  # noqa: E402


class Module(torch.nn.Module):
    def forward(self, x, weight):
        return rms_norm.rms_norm(x * 2, weight) + 1


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")
    print(f"ok  {what}")


def main():
    names = torch.ops.kernelwright
    schema = "kernelwright::rms_norm(Tensor x, Tensor weight) -> Tensor"
    expect("schema", str(names.rms_norm.default._schema), schema)
    schema = "kernelwright::add_norm(Tensor(a0!) residual, Tensor x) -> Tensor"
    expect("schema of an operator that changes an input", str(names.add_norm.default._schema), schema)
    x, weight = torch.empty(33, 257, device="meta"), torch.empty(257, device="meta")
    outcome = torch.library.opcheck(
        rms_norm.rms_norm, (x, weight), test_utils=("test_schema", "test_faketensor"), raise_exception=False
    )
    expect("opcheck", outcome, {"test_schema": "SUCCESS", "test_faketensor": "SUCCESS"})
    with FakeTensorMode():
        made = rms_norm.rms_norm(torch.empty(5, 7, device="cuda"), torch.empty(7, device="cuda"))
    expect("fake operator", (tuple(made.shape), str(made.device), made.dtype), ((5, 7), "cuda:0", torch.float32))
    rows = torch.export.Dim("rows", min=2, max=1000)
    program = torch.export.export(Module(), (x, weight), dynamic_shapes={"x": {0: rows}, "weight": None})
    kinds = [node.target for node in program.graph.nodes if node.op == "call_function"]
    expect("torch.export", names.rms_norm.default in kinds, True)
    for wrong, words in [
        ((torch.randn(3, 4), torch.randn(4)), "on a CUDA device"),
        ((x, torch.empty(5, device="meta")), "the shape of weight"),
        ((x.half(), weight), "must be torch.float32"),
    ]:
        try:
            rms_norm.rms_norm(*wrong)
        except (ValueError, RuntimeError) as error:
            expect(f"refusal: {words}", words in str(error), True)
        else:
            sys.exit(f"not refused: {words}")
    print(f"PyTorch {torch.__version__}: all checks hold")


main()
