import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
inner = 24
outer = 32


class Model(nn.Module):
    def __init__(self, inner, outer, factor):
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.factor = factor

    def forward(self, x) -> torch.Tensor:
        x = self.linear(x)
        kept = x
        x = x * self.factor
        return x + kept


def get_inputs():
    return [torch.randn(batch_size, inner)]


def get_init_inputs():
    return [inner, outer, 0.5]
