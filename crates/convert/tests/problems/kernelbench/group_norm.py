import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 3
channels = 12
num_groups = 4
size = 25


class Model(nn.Module):
    def __init__(self, channels, num_groups):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups, channels)


    def forward(self, x) -> torch.Tensor:
        return self.gn(x)


def get_inputs():
    return [torch.randn(batch_size, channels, size)]


def get_init_inputs():
    return [channels, num_groups]
