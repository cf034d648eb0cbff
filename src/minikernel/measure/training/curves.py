"""The held-out loss against seconds: the same training, from the same weights on the same rows, by everybody.

The clock of a training of NumPy's or PyTorch's stands still while it is prepared (compiled, captured) and while the
held-out text is scored; that of a launch of the lab's has the scoring in it.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional as F

from minikernel.measure.training.names import COMPILE, EAGER, GRAPH, GRAPH_OF_COMPILED, NUMPY, ONE, TORCH_CPU
from minikernel.measure.training.rungs import Step, adamw, captured, model_at_start, synchronize
from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minilab.device import usable_cores
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.optim import AdamW as NumpyAdamW
from minimodel.optim import clip_gradients, cosine_schedule

ROWS_AT_ONCE = 64  # that are scored
CPU = torch.device("cpu")


class Task(NamedTuple):
    """What is trained."""

    config: MiniGPTConfig
    training: dict
    settings: AdamW
    text: TokenStream
    held_out: TokenStream
    seed: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(batch, time) of every step."""
        return [(phase["batch"], phase["time"]) for phase in self.training["phases"] for _ in range(phase["steps"])]

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """Ids, targets and learning rate of every step, as NumPy's training draws them."""
        generator, of, many = np.random.default_rng(self.seed), self.settings, len(self.shapes)
        for step, (batch, length) in enumerate(self.shapes):
            ids, targets = self.text.rows(self.text.random_places(generator, batch, length))
            yield ids, targets, cosine_schedule(step, many, of.learning_rate, of.final_learning_rate, of.warmup)

    def scored(self, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The held-out text in rows of that length, some at a time."""
        places = self.held_out.consecutive_places(length)
        for first in range(0, len(places), ROWS_AT_ONCE):
            yield self.held_out.rows(places[first : first + ROWS_AT_ONCE])


class Way(ABC):
    """A training that takes a step when it is told to."""

    @abstractmethod
    def step(self, ids: np.ndarray, targets: np.ndarray, rate: float) -> None:
        """Take one."""

    @abstractmethod
    def losses(self, ids: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Cross-entropy of each token."""

    @abstractmethod
    def wait(self) -> None:
        """Return when all steps are done."""


class ByNumpy(Way):
    """NumPy's, on this machine's CPU."""

    def __init__(self, task: Task) -> None:
        self._model, self._of = NumpyMiniGPT.initialise(task.config, task.seed), task.settings
        matrices = [array for array in self._model.arrays.values() if array.ndim == 2]
        betas = (self._of.beta_1, self._of.beta_2)
        self._optimizer = NumpyAdamW(self._model.parameters, matrices, betas, self._of.epsilon, self._of.weight_decay)

    def step(self, ids, targets, rate):
        self._model.loss_and_gradients(ids, targets)
        clip_gradients(self._model.gradients, self._of.clip)
        self._optimizer.step(self._model.gradients, rate)

    def losses(self, ids, targets):
        return self._model.loss(ids, targets)

    def wait(self):
        pass  # NumPy returns when it is done


class ByTorch(Way):
    """PyTorch's, on a device: eager, compiled, or the compiled step as one CUDA graph for each shape."""

    def __init__(self, task: Task, device: torch.device, *, compiled: bool = False, graphs: bool = False) -> None:
        self._model, self._device, of = model_at_start(task.config, task.seed, device), device, task.settings
        self._clip = of.clip
        self._call = torch.compile(self._model, dynamic=False) if compiled else self._model
        # a graph reads the rate from memory
        self._rate = torch.zeros((), device=device) if graphs else None
        rate, capturable = 0.0 if self._rate is None else self._rate, graphs and device.type == "cuda"
        self._optimizer = adamw(self._model, of, rate, capturable=capturable)
        self._graphs: dict[tuple[int, ...], tuple[Tensor, Tensor, Step]] = {}
        for shape in dict.fromkeys(task.shapes) if compiled or graphs else ():
            self._prepare(shape, graphs)

    def _prepare(self, shape: tuple[int, int], graphs: bool) -> None:
        # At a rate of nothing weights stay as they are; what else steps leave is cleared.
        ids, targets = (torch.zeros(shape, dtype=torch.int64, device=self._device) for _ in range(2))
        if graphs:
            self._graphs[shape] = ids, targets, captured(lambda: self._step(ids, targets))
        else:
            self._step(ids, targets)
        for state in self._optimizer.state.values():
            for each in state.values():
                each.zero_()

    def _step(self, ids: Tensor, targets: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(self._call(ids).flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._clip)
        self._optimizer.step()

    def step(self, ids, targets, rate):
        given = [torch.from_numpy(each) for each in (ids, targets)]
        if self._rate is None:
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._step(*(each.to(self._device) for each in given))
            return
        *places, replay = self._graphs[ids.shape]
        for place, each in zip(places, given, strict=True):
            place.copy_(each)
        self._rate.fill_(rate)
        replay()

    @torch.no_grad()
    def losses(self, ids, targets):
        logits = self._model(torch.from_numpy(ids).to(self._device))
        of = torch.from_numpy(targets).to(self._device)
        return F.cross_entropy(logits.flatten(0, 1), of.flatten(), reduction="none").cpu().numpy()

    def wait(self):
        synchronize(self._device)


def curves(task: Task, device: torch.device, limit_seconds: float, log: Callable[[str], None]) -> list[dict]:
    """The rows of `curves`: everybody's, each as far as it gets within a limit on its clock."""
    ways: dict[str, Callable[[], Way]] = {
        GRAPH_OF_COMPILED: lambda: ByTorch(task, device, compiled=True, graphs=True),
        COMPILE: lambda: ByTorch(task, device, compiled=True),
        EAGER: lambda: ByTorch(task, device),
        TORCH_CPU: lambda: ByTorch(task, CPU),
        NUMPY: lambda: ByNumpy(task),
    }
    found = []
    with threadpool_limits(usable_cores()):
        for rung in (ONE, GRAPH):
            found.append(of_launches(rung, task, device))
        for rung, make in ways.items():
            begun = time.perf_counter()
            way = make()
            prepared = time.perf_counter() - begun
            points = list(walk(way, task, limit_seconds))
            complete = points[-1]["steps"] == len(task.shapes)
            found.append(
                {"rung": rung, "seed": task.seed, "prepared_seconds": prepared, "complete": complete, "points": points}
            )
    for row in found:
        end = row["points"][-1]
        log(f"{row['rung']}: {end['nats']:.4f} nats after {end['steps']} steps and {end['seconds']:.2f} s")
    return found


def walk(way: Way, task: Task, limit_seconds: float) -> Iterator[dict]:
    """Train, and yield a point where an evaluation is due; one that is over the limit is the last."""
    shapes, every = task.shapes, task.training["evaluate_every"]
    clock, steps = 0.0, task.batches()
    yield point(0, clock, way, task.scored(shapes[0][1]))
    taken = 0
    while taken < len(shapes) and clock < limit_seconds:
        begun = time.perf_counter()
        for ids, targets, rate in steps:
            way.step(ids, targets, rate)
            taken += 1
            if taken % every == 0 or time.perf_counter() - begun + clock > limit_seconds:
                break
        way.wait()
        clock += time.perf_counter() - begun
        yield point(taken, clock, way, task.scored(shapes[taken - 1][1]))


def point(steps: int, seconds: float, way: Way, rows: Iterable[tuple[np.ndarray, np.ndarray]]) -> dict:
    """A point of a curve: the mean loss of all held-out tokens."""
    found = [way.losses(*each) for each in rows]
    nats = sum(each.sum(dtype=np.float64) for each in found) / sum(each.size for each in found)
    return {"steps": steps, "seconds": seconds, "nats": float(nats)}


def of_launches(rung: str, task: Task, device: torch.device) -> dict:
    """A training of the lab's: the kernel has scored, and the host has looked at a clock while it ran."""
    marks, begun = [(0.0, 0)], time.perf_counter()

    def look(taken: int, steps: int) -> None:
        marks.append((time.perf_counter() - begun, taken))

    trained = launch.train(
        model_at_start(task.config, task.seed, device), task.text, task.training["phases"], optimizer=task.settings,
        seed=task.seed, held_out=task.held_out, evaluate_every=task.training["evaluate_every"], report=look,
        launches=rung,
    )  # fmt: skip
    # What came before the launch is not its time: the last look is at its end.
    ends, taken = np.array(marks).T
    ends = np.maximum(ends - (ends[-1] - trained.seconds), 0)
    points = [
        {"steps": steps, "seconds": float(np.interp(steps, taken, ends)), "nats": nats}
        for steps, _, nats in trained.held_out
    ]
    return {"rung": rung, "seed": task.seed, "prepared_seconds": None, "complete": True, "points": points}
