"""Small models for the annotation's tests, each with another kind of kernel, and their captures in data/.

`python tests/minicompile/annotation_models.py [NAME ...]` captures them anew.
"""

import gzip
import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DATA = Path(__file__).parent / "data"


class TinyHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(64, 600)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.proj(x)
        return F.softmax(logits, dim=-1)


class NormScaleGate(nn.Module):
    """RMSNorm, then SiLU."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(256))

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        normed = x * scale * self.weight
        return F.silu(normed)


class CrossEntropy(nn.Module):
    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)


class MatMul(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


class Chain(nn.Module):
    """Elementwise operations only."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = torch.sin(x) + y
        return torch.tanh(shifted) * 0.5


class Negate(nn.Module):
    """One operation: a kernel with nothing fused in it."""

    def forward(self, x: Tensor) -> Tensor:
        return -x


class InPlace(nn.Module):
    """Changes its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1).mul_(2)


class Scatter(nn.Module):
    """Adds rows where another input says."""

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        return torch.zeros(10, 4).index_add(0, rows, x.exp())


def make(name: str) -> tuple[nn.Module, tuple]:
    """(module, example inputs) of one of the models."""
    torch.manual_seed(42)
    makers = {
        "tiny_head": lambda: (TinyHead(), (torch.randn(2, 64),)),
        "layer_norm": lambda: (nn.LayerNorm(256), (torch.randn(32, 256),)),
        "rms_norm_silu": lambda: (NormScaleGate(), (torch.randn(32, 256),)),
        "cross_entropy": lambda: (CrossEntropy(), (torch.randn(8, 600), torch.randint(600, (8,)))),
        "matmul": lambda: (MatMul(), (torch.randn(16, 32), torch.randn(32, 64))),
        "chain": lambda: (Chain(), (torch.randn(1000), torch.randn(1000))),
        "negate": lambda: (Negate(), (torch.randn(1000),)),
        "in_place": lambda: (InPlace(), (torch.randn(64),)),
        "scatter": lambda: (Scatter(), (torch.randn(8, 4), torch.randint(10, (8,)))),
        "wide_softmax": lambda: (nn.Softmax(-1), (torch.randn(4, 20000),)),
    }
    return makers[name]()


CAPTURED = {
    "tiny_head": ("cpu", "simulated"),
    "layer_norm": ("cpu", "simulated"),
    "rms_norm_silu": ("cpu", "simulated"),
    "cross_entropy": ("cpu", "simulated"),
    "matmul": ("cpu",),
    "chain": ("cpu", "simulated"),
    "negate": ("cpu",),
    "in_place": ("cpu",),
    "scatter": ("cpu",),
    "wide_softmax": ("simulated",),
}


def load(name: str, target: str) -> dict:
    """A capture out of data/."""
    return json.loads(gzip.decompress((DATA / f"{name}_{target}.json.gz").read_bytes()))


def main(names: list[str]) -> None:
    from minicompile.capturing import capture

    for name in names or CAPTURED:
        for target in CAPTURED[name]:
            model, inputs = make(name)
            made = capture(model.eval(), inputs, target=target, name=name)
            made["guards"] = []  # long, and the annotation does not read them
            made["panes"] = [pane for pane in made["panes"] if pane["kind"] != "bytecode"]
            (DATA / f"{name}_{target}.json.gz").write_bytes(gzip.compress(json.dumps(made).encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
