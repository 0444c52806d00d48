import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2
channels = 6
size = 33
kernel_size = 3


class Model(nn.Module):
    def __init__(self, channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, stride=2, groups=channels, bias=False)


    def forward(self, x) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, kernel_size]
