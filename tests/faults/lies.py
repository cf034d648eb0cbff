"""Compiled models that are forged: a small model of drawn parts, and a backend that is wrong in one way, or in none.

Whether `maybe_compile` is right about one is asked without it: the same model, compiled by the same backend, is called
beside an eager one, and all that the two calls give and leave behind is compared.
"""

import json
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._inductor.compile_fx  # which each trial's copy of the process would import anew
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile
from minilab import LabError

ROWS, WIDTH = 3, 4
LOGGER = logging.getLogger("forged")
LOGGER.setLevel(logging.CRITICAL)


class Drawn(nn.Module):
    """A layer, and of what `parts` names: what it keeps, writes into its batch, and returns besides."""

    def __init__(self, parts: list[str]) -> None:
        super().__init__()
        self.layer, self.inner, self.parts = nn.Linear(WIDTH, WIDTH), nn.Identity(), parts
        self.last, self.table = torch.zeros(ROWS, WIDTH), {"rows": [torch.zeros(ROWS, WIDTH)]}
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor, batch: dict) -> list[torch.Tensor]:
        y = self.layer(x).tanh()
        side, given = y.detach(), [y]
        if "attribute" in self.parts:
            self.last = side * 2
        if "attribute of a part" in self.parts:
            self.inner.last = side * 3
        if "container" in self.parts:
            self.table["rows"] = [side * 4]
        if "buffer" in self.parts:
            self.mean.copy_(side.mean(0))
        if "batch" in self.parts:
            batch["kept"][0].copy_(side + 1)
        if "leaf" in self.parts:
            given.append(batch["scale"] * x)
        if "view of the batch" in self.parts:
            given.append(x.detach()[1:])
        if "frozen" in self.parts:
            given.append(side * 5)
        return given


PARTS = ("attribute", "attribute of a part", "container", "buffer", "batch", "leaf", "view of the batch", "frozen")


def of_one(change: Callable) -> Callable:
    """What changes one of the tensors that a graph gives, by its number."""

    def run(graph: Callable, given: tuple, number: int) -> Any:
        found = list(graph(*given))
        places = [place for place, one in enumerate(found) if isinstance(one, torch.Tensor)]
        if places:
            place = places[number % len(places)]
            found[place] = change(found[place])
        return tuple(found)

    return run


def of_what_is_given(before: Callable | None = None, after: Callable | None = None) -> Callable:
    """What changes one of the tensors that a graph is given, by its number, before or after it runs."""

    def run(graph: Callable, given: tuple, number: int) -> Any:
        places = [place for place, one in enumerate(given) if isinstance(one, torch.Tensor)]
        place = places[number % len(places)]
        if before:
            given = (*given[:place], before(given[place]), *given[place + 1 :])
        found = graph(*given)
        if after:
            after(given[place].data)
        return found

    return run


def drawing(graph: Callable, given: tuple, number: int) -> Any:
    """What draws a random number that eager does not."""
    (torch.rand if number % 2 else lambda _: random.random())(1)
    return graph(*given)


def where(wrong_for: Callable[[list[torch.Tensor]], bool]) -> Callable:
    """What is wrong where it is given tensors of a kind, and right elsewhere."""

    def run(graph: Callable, given: tuple, number: int) -> Any:
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        return of_one(lambda one: one * 2)(graph, given, number) if wrong_for(tensors) else graph(*given)

    return run


def lie_over_one_another(tensors: list[torch.Tensor]) -> bool:
    return len({one.untyped_storage().data_ptr() for one in tensors}) < len(tensors)


LIES: dict[str, Callable] = {
    "none": lambda graph, given, number: graph(*given),
    "rounding": of_one(lambda one: one * (1 + 1e-7)),
    "more": of_one(lambda one: one + 1),
    "one element": of_one(
        lambda one: one + torch.nn.functional.one_hot(torch.tensor(one.shape[-1] - 1), one.shape[-1])
    ),
    "NaN": of_one(lambda one: one * torch.nan),
    "rows exchanged": of_one(lambda one: one.flip(0)),
    "strides": of_one(lambda one: one.t().contiguous().t() if one.ndim == 2 else one),
    "a copy": of_one(torch.clone),
    "detached": of_one(torch.detach),
    "asks for a gradient": of_one(lambda one: one.detach().requires_grad_()),
    "gradient": of_what_is_given(before=lambda one: 2 * one - one.detach()),
    "a write is lost": of_what_is_given(before=torch.clone),
    "written to": of_what_is_given(after=lambda one: one.mul_(1.5)),
    "random numbers": drawing,
    "where rows lie apart": where(lambda tensors: not all(one.is_contiguous() for one in tensors)),
    "where memory is shared": where(lie_over_one_another),
}


def lying(name: str, number: int) -> Callable:
    """A backend of torch.compile that lies so in each call of each graph."""
    return lambda graph, inputs: lambda *given: LIES[name](graph, given, number)


def forged_model(draw: random.Random, original: bytes) -> bytes:
    """A model's parts, how its batch lies in memory, whether it trains, and a lie."""
    parts = draw.sample(PARTS, draw.randrange(len(PARTS) + 1))
    one = {"parts": parts, "lies": draw.choice(("alone", "apart", "shared")), "trains": draw.random() < 0.5}
    return json.dumps({**one, "lie": draw.choice([*LIES]), "number": draw.randrange(12)}).encode()


def drawn_model(one: dict) -> tuple[nn.Module, tuple]:
    """The same model and batch each time."""
    torch.manual_seed(1)
    random.seed(1)
    whole = torch.rand(ROWS + 1, 2 * WIDTH) + 0.5
    x = {"alone": whole[1:, WIDTH:].clone(), "apart": whole[1:, WIDTH:], "shared": whole.view(-1, WIDTH)[1 : ROWS + 1]}
    kept = whole.view(-1, WIDTH)[:ROWS] if one["lies"] == "shared" else torch.zeros(ROWS, WIDTH)
    batch = {"kept": [kept], "scale": torch.ones(WIDTH, requires_grad=one["trains"])}
    return Drawn(one["parts"]).train(one["trains"]), (x[one["lies"]], batch)


def left_by(call: Callable, model: nn.Module, batch: tuple, trains: bool) -> dict[str, Any]:
    """All that a call gives and leaves behind, by name."""
    with torch.set_grad_enabled(trains):
        given = call(*batch)
        if trains:
            torch.stack([one.square().mean() for one in given if one.requires_grad]).sum().backward()
    tensors = {f"output {number}": one for number, one in enumerate(given)}
    tensors |= {"x": batch[0], "kept": batch[1]["kept"][0], "scale": batch[1]["scale"], "last": model.last}
    tensors |= {"inner": getattr(model.inner, "last", None), "rows": model.table["rows"][0]} | model.state_dict(
        keep_vars=True
    )
    tensors = {name: one for name, one in tensors.items() if one is not None}
    left: dict[str, Any] = {"random numbers": (random.getstate(), torch.get_rng_state().tolist())}
    first: dict[int, str] = {}
    for name, one in tensors.items():
        whose = first.setdefault(one.untyped_storage().data_ptr(), name)
        strides = [stride for stride, size in zip(one.stride(), one.shape, strict=True) if size > 1]
        left[f"facts of {name}"] = (one.shape, one.dtype, strides, one.requires_grad, whose, one.storage_offset())
        left[name], left[f"gradient of {name}"] = one.detach(), one.grad if one.is_leaf else None
    return left


def same(one: Any, other: Any) -> bool:
    """Whether two calls left the same, to some units of float32's last place."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    return type(one) is type(other) and one == other


def stands(path: Path) -> bool:
    """Whether a forged model that runs compiled leaves what eager does.

    Raises:
        LabError: it stays eager, with the reason, and is wrong.
    """
    one = json.loads(path.read_text())
    backend = lying(one["lie"], one["number"])
    sides: list[dict[str, Any]] = []
    for compiles in (False, True):
        torch.compiler.reset()
        model, batch = drawn_model(one)
        call = torch.compile(model, backend=backend) if compiles else model
        try:
            sides.append(left_by(call, model, batch, one["trains"]))
        except RuntimeError as error:  # autograd's, of what was written to
            sides.append({f"side {len(sides)}": str(error)})
    right = sides[0].keys() == sides[1].keys() and all(same(sides[0][name], sides[1][name]) for name in sides[0])
    torch.compiler.reset()
    model, batch = drawn_model(one)
    with torch.set_grad_enabled(one["trains"]):
        maybe_compile(model, CompileConfig(enabled=True, backend=backend), LOGGER, batch)
    report = compile_report(model)
    if not report.compiled and not right:
        raise LabError(str(report.reason))
    return report.compiled and right
