import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
features = 8
dim = 64


class Model(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super(Model, self).__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)


    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)


def get_inputs():
    return [torch.rand(batch_size, features, dim)]


def get_init_inputs():
    return [(features, dim)]
