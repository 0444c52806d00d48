# cuBLAS by way of PyTorch, in binary32 throughout: TF32 would be another task.
import rival


def prepare(job):
    torch = rival.torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (job.tensor(name) for name in "ab")
    return f"cuBLAS of PyTorch {torch.__version__}, without TF32", lambda: {"c": a @ b}


rival.serve(prepare)
