import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2
channels = 4
size = 8


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)


    def forward(self, x) -> torch.Tensor:
        return self.bn(x)


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels]
