import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1
heads = 2
length = 48
depth = 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()


    def forward(self, Q, K, V) -> torch.Tensor:
        return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


def get_inputs():
    return [torch.randn(batch_size, heads, length, depth), torch.randn(batch_size, heads, length, depth), torch.randn(batch_size, heads, length, depth)]


def get_init_inputs():
    return []
