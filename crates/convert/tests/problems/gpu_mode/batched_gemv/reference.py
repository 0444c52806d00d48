import torch


def generate_input(m: int, k: int, batch: int, seed: int):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    matrix = torch.randn((batch, m, k), device="cuda", dtype=torch.float16, generator=gen)
    vector = torch.randn((batch, k), device="cuda", dtype=torch.float16, generator=gen)
    return matrix, vector


def ref_kernel(data):
    matrix, vector = data
    return torch.einsum("bmk,bk->bm", matrix.float(), vector.float()).half()
