import torch
import torch.nn as nn
import torch.nn.functional as F

b = 2
i = 5
j = 7
l = 33
k = 20


class Model(nn.Module):
    def __init__(self):
        super().__init__()


    def forward(self, A, B) -> torch.Tensor:
        return torch.einsum("bijl,lk->bijk", A, B)


def get_inputs():
    return [torch.randn(b, i, j, l), torch.randn(l, k)]


def get_init_inputs():
    return []
