import torch
import torch.nn as nn
import torch.nn.functional as F

size = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()


    def forward(self, x) -> torch.Tensor:
        return torch.argmax(x, dim=1)


def get_inputs():
    return [torch.randn(size, size)]


def get_init_inputs():
    return []
