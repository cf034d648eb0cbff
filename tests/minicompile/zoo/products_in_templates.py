"""Products that Inductor writes itself, out of a template: an epilogue is fused to one of the two."""

import torch
from torch import nn

OPTIONS = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP,TRITON"}


class ProductsInTemplates(nn.Module):
    def forward(self, x, y):
        return torch.bmm(x, y).relu() * 2, torch.bmm(y, x)


def make():
    return ProductsInTemplates(), (torch.randn(4, 32, 64), torch.randn(4, 64, 32))
