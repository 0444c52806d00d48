# PyTorch's fused attention, held to one backend: which kernel answered must not depend on the shape.
import rival


def prepare(job):
    torch = rival.torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (job.tensor(name) for name in "qkv")

    def execute():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, scale=job.scalars["scale"]
            )
        return {"o": out}

    return f"PyTorch {torch.__version__} SDPA, flash attention", execute


rival.serve(prepare)
