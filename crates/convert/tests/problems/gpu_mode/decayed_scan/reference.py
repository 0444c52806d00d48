import torch


def generate_input(length: int, channels: int, seed: int):
    torch.manual_seed(seed)
    decay = torch.rand(channels, device="cuda")
    values = torch.randn(length, channels, device="cuda")
    return decay, values


def ref_kernel(data):
    decay, values = data
    state = values[0]
    states = [state]
    for step in range(1, values.shape[0]):
        state = state * decay + values[step]
        states = states + [state]
    return torch.stack(states)
