import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2
inner = 3
outer = 5
length = 40


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, 3, stride=1, padding=2, dilation=2, bias=False)

    def forward(self, x) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch_size, inner, length)]


def get_init_inputs():
    return [inner, outer]
