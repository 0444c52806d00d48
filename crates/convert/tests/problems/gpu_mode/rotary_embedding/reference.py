import torch


def rotate(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def generate_input(tokens: int, heads: int, half: int, seed: int):
    torch.manual_seed(seed)
    query = torch.randn(tokens, heads, 2 * half, device="cuda")
    cosines = torch.rand(tokens, 2 * half, device="cuda")
    sines = torch.rand(tokens, 2 * half, device="cuda")
    return query, cosines, sines


def ref_kernel(data):
    query, cosines, sines = data
    return query * cosines.unsqueeze(1) + rotate(query) * sines.unsqueeze(1)
