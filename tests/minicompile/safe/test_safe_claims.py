"""What the report says runs compiled does, and what runs eager is named: now, and as calls happen."""

import copy
import io
import logging
import os
import pickle

import pytest
import torch
from safe_models import MLP, features
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.safe.smoketest import smoketest

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger("claims")
runs: list[int] = []  # a compiled graph, each time it runs in this process


def counting(graph_module, example_inputs):
    def run(*arguments):
        runs.append(1)
        return graph_module(*arguments)

    return run


def compiled(model: nn.Module, batch=None, **fields) -> nn.Module:
    maybe_compile(model, CompileConfig(**{"enabled": True, "backend": counting, **fields}), logger, batch)
    runs.clear()
    return model


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "claims" and record.levelno > 20]


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).relu()


class Auto(nn.Module):
    """A model with every way round its compiled code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Part(), Part()

    def forward(self, x):
        return self.decoder(self.encoder(x))

    @torch.no_grad()
    def encode(self, rows):
        return torch.stack([self.forward(row[None])[0] for row in rows])

    def embed(self, x):
        return self.encoder(x)

    def embed_forward(self, x):
        return self.encoder.forward(x)


class Block(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer, self.name = nn.Linear(8, 8), name

    def forward(self, x):
        return self.layer(x) * (2.0 if self.name.endswith("0") else 1.0)


def stack(count: int) -> nn.Sequential:
    return nn.Sequential(*(Block(f"block {number}") for number in range(count)))


@pytest.mark.parametrize("place", ["apart", "in place", "unchecked"])
def test_modules_past_the_recompile_limit_are_named_and_no_others(place, monkeypatch):
    if place == "in place":
        monkeypatch.setattr(smoketest, "why_not", lambda tensors: "the test asks for it")
    with torch._dynamo.config.patch(recompile_limit=2):
        batch = None if place == "unchecked" else features()
        model = compiled(stack(4), batch, allowlist=["*"], blocklist=[])
        model = compiled(stack(4), batch, allowlist=["0", "1", "2", "3"])
        for _ in range(2):
            model(features())
        report = compile_report(model)
        runs.clear()
        model(features())
    assert report.modules == ["0", "1"]
    assert {name: why for name, why in report.why_eager.items() if name.isdigit()} == dict.fromkeys(
        "23", "recompile_limit"
    )
    assert len(runs) == len(report.modules)
