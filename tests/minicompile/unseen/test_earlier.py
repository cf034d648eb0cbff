"""A block that calls what was compiled before it says so, with the place and with what would show it."""

import logging

import pytest
import torch
from captured import FAST
from declared_faults import check_says, fault, words_of
from torch import nn

import minicompile
from minicompile import CompileConfig, maybe_compile


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        return self.inner(x) * 2


class Halves(Doubles):
    def forward(self, x):
        return self.inner(x) / 2


@torch.compile(options=FAST)
def step(batch):
    y = batch["x"].cos()
    if y.mean() > 0.5:
        y = y / 1.1
    return y * batch["y"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    torch._dynamo.reset()
    folder, x = tmp_path_factory.mktemp("earlier"), torch.randn(2, 4)
    batch = {"x": torch.randn(10, requires_grad=True), "y": torch.randn(10)}
    by_method, uncalled, unshown = Doubles(), torch.compile(torch.sin, options=FAST), lambda x: x.tan() + 1
    by_method.compile(options=FAST)
    safe = maybe_compile(Halves(), CompileConfig(enabled=True, options=FAST), logging.getLogger("x"), x)
    other_backend = torch.compile(unshown, backend="eager")
    for call, given in ((step, batch), (by_method, x), (safe, x), (uncalled, x), (other_backend, x)):
        call(given)
    with minicompile.explore() as first:
        torch.compile(lambda x: x.exp() + 3, options=FAST)(x)
    with minicompile.explore(folder / "beside") as beside:
        torch.compile(lambda x: x.cosh(), options=FAST)(x)
        for call, given in ((step, batch), (by_method, x), (safe, x), (other_backend, x)):
            call(given)
    torch._dynamo.reset()
    with minicompile.explore(folder / "again") as again:
        step(batch)
    return first, beside, again


@fault(
    "what the block calls was compiled before it",
    "step (...:...) was compiled before the block began; torch.compiler.reset() in front of it shows it.",
    "What the block compiled is shown beside it.",
)
def test_each_is_named_with_its_line_also_beside_what_was_compiled_in_the_block(told, says):
    _, beside, _ = told
    assert len(beside.captures) == 1
    lines = {one["function"]: one["line"] for one in beside.unseen}
    assert lines == {
        "step": step.__wrapped__.__code__.co_firstlineno,
        "Doubles.forward": Doubles.forward.__code__.co_firstlineno,
        "Halves.forward": Halves.forward.__code__.co_firstlineno,
    }
    page = words_of(beside.index)
    assert f"step (tests/minicompile/unseen/test_earlier.py:{lines['step']}) was" in page
    check_says(page, says)


def test_a_block_that_calls_nothing_of_it_says_nothing_and_after_a_reset_it_is_shown(told):
    first, _, again = told
    assert first.unseen == again.unseen == []
    assert [capture["model"]["name"] for capture in again.captures] == ["step"]
