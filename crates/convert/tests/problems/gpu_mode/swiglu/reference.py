import torch


def generate_input(tokens: int, inner: int, outer: int, beta: float, seed: int):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(tokens, inner, device="cuda", generator=gen)
    gate = torch.randn(inner, outer, device="cuda", generator=gen)
    up = torch.randn(inner, outer, device="cuda", generator=gen)
    return x, gate, up, beta


def ref_kernel(data):
    x, gate, up, beta = data
    gated = x @ gate
    return gated * torch.sigmoid(beta * gated) * (x @ up)
