"""Random models, each explained and held against its generated code as those of `zoo/` are.

`python tests/minicompile/random_models.py --models 100 --seed 1` captures each model for the CPU and for a simulated
GPU, proves what is said of it, and fails where a sentence is false, or where a model is refused that torch.compile
takes. `--show N` prints a model's file, `--only N` tries that model alone. To keep one, put its file into `zoo/`.

A model grows step by step: a template of `random_steps` with its blanks drawn, which eager PyTorch computes at once.
What it refuses is drawn again. All of it follows from the seed.
"""

import argparse
import os
import random
import re
import sys
import tempfile
from itertools import count
from pathlib import Path

import torch
from captured import compiled_code
from random_steps import SIZES, STEPS, Blanks, Template
from torch import Tensor, nn
from torch.nn import functional
from watched_models import keep_all, minor
from zoo_models import TARGETS, Captured, Verdict, load, of_kept, path_of
from zoo_proofs import judged
from zoo_runs import Ran, ran

from minicompile.models import CapturedModel

LARGEST, MOST_RESULTS, BOUND = 6000, 3, 1e3  # elements of a result, results of a step, their absolute values
REFUSED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError)
SCALED = ("{x} * {new}", "nn.Parameter(torch.randn({like}))")  # what a training step begins with
TOGETHER = 20  # models whose kernels are built in one go
FILE = '''"""Random model {number} of seed {seed}."""

import torch
from torch import nn
{imports}{train}

class RandomModel(nn.Module):
{parts}    def forward(self, {inputs}):
{steps}


def make():
    return RandomModel(), (
{given}
    )
'''
PARTS = """    def __init__(self):
        super().__init__()
{parts}

"""


class Growing:
    """A model as it grows: the texts of its parts, inputs and steps, and the values that eager PyTorch gives them."""

    def __init__(self, draw: random.Random, train: bool) -> None:
        self.draw, self.train, self.module = draw, train, nn.Module()
        rank = draw.choice((1, 2, 2, 3, 3, 4))
        size = tuple(draw.choice([size for size in SIZES if size**rank < LARGEST]) for _ in range(rank))
        dtype = draw.choice(("",) * 7 + (", dtype=torch.bfloat16",))
        self.parts: dict[str, str] = {}
        self.inputs = {"x0": f"torch.randn({size}{dtype})"}
        self.steps: list[str] = []
        self.values: dict[str, Tensor] = {"x0": self._computed(self.inputs["x0"])}
        self.unread = ["x0"]

    def _computed(self, text: str, **more: object):
        space = {"torch": torch, "nn": nn, "F": functional, "self": self.module}
        return eval(text, space, {**getattr(self, "values", {}), **more})

    def grow(self, template: Template) -> bool:
        """Add a step, unless eager PyTorch refuses it or its results are of no use."""
        form, makes = template if isinstance(template, tuple) else (template, "")
        part, blanks, more = makes.startswith("nn."), Blanks(self.draw, self.values), {}
        new = f"part{len(self.parts)}" if part else f"x{len(self.inputs)}"
        try:
            made = makes.format_map(blanks)
            blanks["new"] = f"self.{new}" if part else new
            text = form.format_map(blanks)
            if part:
                setattr(self.module, new, self._computed(made))
                self.module.train(self.train)
            elif made:
                more = {new: self._computed(made)}
            results = self._computed(text, **more)
        except REFUSED:
            return False
        results = (results,) if isinstance(results, Tensor) else tuple(results)
        if len(results) > MOST_RESULTS or not all(map(_useful, results)):
            return False
        first = sum(name.startswith("v") for name in self.values)
        names = [f"v{number}" for number, _ in enumerate(results, first)]
        if made:
            (self.parts if part else self.inputs)[new] = made
        self.values |= {**more, **dict(zip(names, results, strict=True))}
        self.unread = [name for name in self.unread if name not in re.findall(r"\w+", text)] + names
        told = ", ".join(f"{one.dtype}".removeprefix("torch.") + f" {tuple(one.shape)}" for one in results)
        self.steps.append(f"{', '.join(names)} = {text}  # {told}")
        return True

    def ended(self) -> bool:
        """Return what no step has read: as it is, or as a loss that eager PyTorch can run backward from."""
        if not self.train:
            self.steps.append(f"return {', '.join(self.unread)}")
            return True
        losses = [f"{name}.float().square().mean()" for name in self.unread]
        self.steps += [f"loss = {losses[0]}", *(f"loss = loss + {loss}" for loss in losses[1:]), "return loss"]
        try:
            self._computed(" + ".join(losses)).backward()
        except REFUSED:
            return False
        return True


def _useful(result: Tensor) -> bool:
    """Whether a result is a tensor to go on with: not too large, and its numbers tell something."""
    return 0 < result.numel() <= LARGEST and not result.is_complex() and bool((result.double().abs() < BOUND).all())


def source(seed: int, number: int) -> str:
    """The file of a model. The same seed and number give the same one."""
    train = random.Random(f"{seed} {number}").random() < 0.3
    for attempt in count():
        draw = random.Random(f"{seed} {number} {attempt}")
        with torch.random.fork_rng(devices=()), torch.set_grad_enabled(train):
            torch.manual_seed(0)
            model, steps = Growing(draw, train), draw.randint(4, 12)
            grown = not train or model.grow(SCALED)
            while grown and len(model.steps) < steps:
                model.grow(draw.choice(STEPS))
            if grown and model.ended():
                return _text(model, seed, number)
    raise AssertionError


def _text(model: Growing, seed: int, number: int) -> str:
    def lines(some) -> str:
        return "\n".join(f"        {one}" for one in some)

    parts = lines(f"self.{name} = {text}" for name, text in model.parts.items())
    uses = any("F." in step for step in model.steps)
    return FILE.format(
        seed=seed,
        number=number,
        imports="from torch.nn import functional as F\n" if uses else "",
        train="\nTRAIN = True\n" if model.train else "",
        parts=PARTS.format(parts=parts) if parts else "",
        inputs=", ".join(model.inputs),
        steps=lines(model.steps),
        given=lines(f"{text}," for text in model.inputs.values()),
    )


def written(seed: int, numbers: range | list[int], folder: Path) -> list[str]:
    """Write models into a folder; their names."""
    names = [f"random_{seed}_{number}" for number in numbers]
    for name, number in zip(names, numbers, strict=True):
        (folder / f"{name}.py").write_text(source(seed, number))
    return names


def verdict(one: Captured, its: Ran) -> Verdict:
    """All that is said of a capture, held against its code; it is to warn of nothing."""
    return sum(judged(one, its).values(), Verdict(false=[str(warned) for warned in one.capture["warnings"]]))


def refused(name: str, target: str, folder: Path) -> bool:
    """Whether torch.compile takes a model whose capture failed."""
    model = load(name, folder)
    try:
        compiled_code(CapturedModel(name, *model.make(), train=model.train), target)
    except Exception:  # whatever it may raise
        return False
    return True


def tried(seed: int, numbers: list[int], folder: Path, jobs: int) -> dict[str, Verdict]:
    """What was held and what is false of some models, by name; a refusal is false too."""
    names = written(seed, numbers, folder)
    pairs = [(name, target) for name in names for target in TARGETS]
    states = keep_all(pairs, folder / "kept", jobs, folder)
    paths = {pair: path_of(*pair, minor(), folder / "kept") for pair in pairs}
    captures = [of_kept(*pair, path) for pair, path in paths.items() if path.exists()]
    total = {name: Verdict() for name in names}
    for one, its in zip(captures, ran(captures, folder), strict=True):
        found = verdict(one, its)
        total[one.name] += Verdict(found.held, [f"{one.target}: {said}" for said in found.false])
    for (name, target), state in states.items():
        if state != "new" and refused(name, target, folder):
            total[name].false.append(f"{target}: refused: {state}")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", type=int, default=20, help="numbers 0 to MODELS - 1 of the seed")
    parser.add_argument("--only", type=int, metavar="N", help="this number alone")
    parser.add_argument("--show", type=int, metavar="N", help="print this number's file, and try nothing")
    parser.add_argument("--jobs", type=int, default=2, help="models that are captured at a time")
    asked = parser.parse_args()
    if asked.show is not None:
        print(source(asked.seed, asked.show), end="")
        return 0
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # there are processes enough
    numbers, total = list(range(asked.models)) if asked.only is None else [asked.only], Verdict()
    for first in range(0, len(numbers), TOGETHER):
        with tempfile.TemporaryDirectory() as folder:
            verdicts = tried(asked.seed, numbers[first : first + TOGETHER], Path(folder), asked.jobs)
        for name, verdict in verdicts.items():
            total += verdict
            print(name, f"{sum(verdict.held.values())} held", *verdict.false, sep="\n    ", flush=True)
    print(f"{len(numbers)} models, {sum(total.held.values())} sentences held, {len(total.false)} false or refused")
    return bool(total.false)


if __name__ == "__main__":
    sys.exit(main())
