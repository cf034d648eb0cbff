"""A model of two alike layers, and its capture, forward and backward, in data/.

python tests/minicompile/layered.py
"""

import gzip
import json

import torch
from explored import DATA
from torch import Tensor, nn
from torch.nn import functional as F

FILE = DATA / "layered_cpu.json.gz"


class Block(nn.Module):
    """A residual layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.mix(self.norm(x)))


class Layered(nn.Module):
    """Two of them, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Sequential(nn.Linear(32, 8), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x).mean()


def layered() -> dict:
    """The capture of `Layered` as C++."""
    return json.loads(gzip.decompress(FILE.read_bytes()))


if __name__ == "__main__":
    from minicompile import capture

    torch.manual_seed(0)
    options = {"cpp.vec_isa_ok": True, "cpp.simdlen": 256}
    made = capture(Layered(), (torch.randn(16, 32),), train=True, name="layered", options=options)
    FILE.write_bytes(gzip.compress(json.dumps(made).encode(), mtime=0))
