import torch


def generate_input(rows: int, columns: int, seed: int):
    torch.manual_seed(seed)
    return torch.randn(rows, columns, device="cuda")


def ref_kernel(data):
    return data.abs().amax(dim=1)
