# PyTorch's softmax over rows.
import rival


def prepare(job):
    torch = rival.torch()
    x = job.tensor("x")
    return f"PyTorch {torch.__version__} softmax", lambda: {"y": torch.softmax(x, dim=-1)}


rival.serve(prepare)
