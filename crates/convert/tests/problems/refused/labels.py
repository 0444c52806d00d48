import torch
import torch.nn as nn
import torch.nn.functional as F

size = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()


    def forward(self, predictions, targets) -> torch.Tensor:
        return F.cross_entropy(predictions, targets)


def get_inputs():
    return [torch.randn(size, 10), torch.randint(0, 10, (size,))]


def get_init_inputs():
    return []
