import torch
import torch.nn as nn
import torch.nn.functional as F

size = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()


    def forward(self, x) -> torch.Tensor:
        if x.sum() > 0:
            x = -x
        return x


def get_inputs():
    return [torch.randn(size, size)]


def get_init_inputs():
    return []
