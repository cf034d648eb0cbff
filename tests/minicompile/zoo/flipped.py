"""Values that are only stored in another order: flipped, looked up, rolled, or copied for a scatter or a library."""

import torch
from torch import nn
from torch.nn import functional as F


class Flipped(nn.Module):
    def forward(self, x, w, places, rows, kept, queries, keys):
        found = (x * 2).gather(1, places), x.exp()[rows]
        turned = torch.relu(x @ w).flip(-1), (x[:5].sin() + 1).roll(1, -1), x[:6].cos().t().clone().flip(0)
        changed = x[:7].abs().flip(0).scatter(1, places[:7], 0.5)
        kept.copy_(x[:3].square().flip(0))
        attended = F.scaled_dot_product_attention(queries.exp().flip(1).transpose(1, 2), keys, keys)
        return *found, *turned, changed, attended


def make():
    places, rows = torch.randint(0, 16, (8, 16)), torch.randint(0, 8, (8,))
    attention = torch.randn(2, 9, 4, 16), torch.randn(2, 4, 9, 16)
    return Flipped(), (torch.randn(8, 16), torch.randn(16, 12), places, rows, torch.randn(3, 16), *attention)
