"""`train`: MiniGPT trained in one launch, for a GPU on which all blocks of a kernel can run at once.

The kernel is `train.cuh`. While it runs the host sleeps, and reads from memory that both can see how far it is.
"""

import ctypes
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from ctypes import c_float, c_int, c_uint, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikernel.model import driver, nvrtc
from minikernel.model.train import graph
from minikernel.model.train.graph import Given, Replays
from minikernel.model.train.layout import (
    THREADS,
    TOLD,
    Phase,
    check_model,
    check_phases,
    fits,
    floats_of,
    packed_floats,
    shared_bytes,
    tokens_of,
)
from minikernel.model.train.tables import AdamW, tables
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.corpus import TokenStream
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT

SOURCES = {
    "float32": Path(__file__).parent / "train.cu",
    "bfloat16": Path(__file__).parent / "train_bfloat16.cu",
}  # by the products' operands
SOURCE = SOURCES["float32"]
EXPRESSION = "train_minigpt"
DEFAULTS = AdamW()
PROGRESS, STOP = 0, 1  # of the memory that host and kernel share
PHASES = 7  # of the kernel's parameters
SECONDS_BETWEEN_LOOKS = 0.001
SIZES = 2**31  # the kernel's indices are int
ONE, GRAPH, EITHER = "one", "graph", "either"
STAMPED, DEEP, BFLOAT16 = "#define STAMPED 1\n", "#define DEEP 1\n", "#define OPERANDS_BFLOAT16\n"
EVENTS, WATCHED = 64, 12  # of a block; steps, of which the last is watched


class Trained(NamedTuple):
    """What a training was.

    Attributes:
        losses, norms: of each step: the batch's mean cross-entropy in nats, and the gradients' norm before clipping.
        held_out: of each evaluation (steps taken, tokens of a row, mean cross-entropy of the held-out text).
        seconds: of the launch, on the GPU's clock.
        launches: `one` or `graph`, as `train` has them.
    """

    losses: np.ndarray
    norms: np.ndarray
    held_out: list[tuple[int, int, float]]
    seconds: float
    launches: str = ONE


def train(
    model: GrammarMiniGPT,
    tokens: TokenStream,
    schedule: Iterable[Mapping[str, int] | tuple[int, int, int]],
    *,
    optimizer: AdamW = DEFAULTS,
    seed: int = 42,
    held_out: TokenStream | None = None,
    evaluate_every: int = 200,
    operands: str = "float32",
    report: Callable[[int, int], Any] | None = None,
    launches: str = ONE,
) -> Trained:
    """Train a model in place: the whole schedule in one launch, or each step in three that a CUDA graph replays.

    The rows of each step are those that `minimodel.training` draws for the seed. The same model, text and GPU give the
    same bits. Ctrl-C ends it after the step that it is at, with that step's parameters in the model. It runs on the
    model's GPU, on torch's current stream there, and the current device stays what it is.

    Args:
        model: float32 on a GPU of compute capability 9.0 or later, n_embd 64, n_head 4, at most 128 positions; layers
            and words as far as a block's shared memory goes, 4 and 704 on an H100.
        tokens: the training text.
        schedule: (steps, batch, time) of each phase, or mappings with these names as `training.phases` of config.yaml;
            time a multiple of 16.
        optimizer: AdamW's settings.
        seed: of the batches.
        held_out: text whose loss is asked for before the first step, every `evaluate_every` steps and after the last.
        operands: `float32`, or `bfloat16`: to which the operands of products are rounded as they are read. Weights,
            sums, gradients and moments are float32 either way.
        report: called with (steps taken, steps) now and then, from this thread.
        launches: `one`; or `graph`, which takes more layers and words, and gives the same bits where both take a model;
            or `either`: one where it takes the model, else graph.

    Raises:
        LabError: `launches` is none of these; or why the kernel does not take the model, the schedule or the GPU; or
            the loss is no longer finite, and the model is as it was before that step.
    """
    phases = [Phase(**phase) if isinstance(phase, Mapping) else Phase(*phase) for phase in schedule]
    if launches not in (ways := (ONE, GRAPH, EITHER)):
        raise LabError(f"launches is {launches!r}; it is one of {', '.join(ways)}.")
    gpu = _check_place(model)
    most = softmax_cuda.largest_shared_bytes(gpu)
    if launches == EITHER:
        launches = ONE if fits(model.config, most) else GRAPH
    blocks = softmax_cuda.multiprocessors(gpu)
    check_model(model.config, most, deep=launches == GRAPH)
    check_phases(model.config, phases, blocks)
    if operands not in SOURCES:
        raise LabError(f"operands are {operands!r}; take one of {', '.join(SOURCES)}.")
    if evaluate_every < 1:
        raise LabError(f"evaluate_every is {evaluate_every}; it must be at least 1.")
    made = tables(tokens, phases, optimizer, seed, held_out)
    if not 0 <= min(made.text.min(), tokens.bos) <= max(made.text.max(), tokens.bos) < model.config.vocab_size:
        raise LabError(
            f"the text has ids outside the model's vocabulary of {model.config.vocab_size}; encode it with the "
            "vocabulary that the model is for."
        )
    with torch.cuda.device(gpu):
        launch = WAYS[launches](model, phases, made, optimizer, tokens.bos, evaluate_every, blocks, operands)
        launch.run(model, report)
    trained = launch.trained(held_out is not None)
    if not np.isfinite(trained.norms[-1:] + trained.losses[-1:]).all():
        raise LabError(
            f"the loss is no longer finite at step {len(trained.losses)}; lower the optimizer's learning_rate."
        )
    return trained._replace(launches=launches)


class _Launch:
    """The kernel's launch, with all memory that it reads and writes."""

    expression, deep = EXPRESSION, False

    def __init__(
        self,
        model,
        phases,
        made,
        optimizer: AdamW,
        bos: int,
        evaluate_every: int,
        blocks: int,
        operands: str,
        stamps: Tensor | None = None,
    ) -> None:
        device, self.config, self.operands = model.lm_head.weight.device, model.config, operands
        self.phases, self.evaluate_every = phases, evaluate_every
        self.steps, room = len(made.rates), tokens_of(phases, blocks)
        if (floats := floats_of(self.config, room, blocks)) >= SIZES:
            raise LabError(
                f"a batch of {room:,} tokens is too large for the training in one launch; take smaller ones."
            )
        parameters = dict(model.named_parameters())
        flat = torch.cat([parameters[torch_name(name)].detach().reshape(-1) for name in self.config.shapes])
        self.parameters, self.gradients, self.host = flat, torch.empty_like(flat), _shared_with_host()
        evaluations = 1 + self.steps // evaluate_every + 1
        self.record = torch.zeros(2 * self.steps + evaluations, device=device)
        # in the order of the kernel's parameters
        self._memory: list[Tensor] = [
            self.parameters, torch.zeros(packed_floats(self.config), device=device), self.gradients,
            torch.zeros_like(flat), torch.zeros_like(flat),
            *(torch.from_numpy(table).to(device) for table in made), torch.empty(floats, device=device),
            torch.empty(room, dtype=torch.int32, device=device),
            torch.zeros(TOLD + self.config.n_layer + len(phases) * blocks, dtype=torch.int32, device=device),
            self.record, self.host,
        ]  # fmt: skip
        sizes = (self.config.n_layer, self.config.vocab_size, self.config.block_size, bos, room, len(phases))
        values = [
            *(c_void_p(each.data_ptr()) for each in self._memory), *map(c_int, (*sizes, self.steps, evaluate_every)),
            *map(c_float, (optimizer.beta_1, optimizer.beta_2, optimizer.clip)),
        ]  # fmt: skip
        self._last = () if stamps is None else (c_void_p(stamps.data_ptr()),)
        values += self._last
        self._values = values  # the driver is given where they lie
        self._held_out = [(int(rows), int(begin)) for *_, rows, begin in made.phases]
        self._addresses = (c_void_p * len(values))(*map(ctypes.addressof, values))
        self._gpu, self._blocks = flat.get_device(), blocks

    def kernel(self) -> Any:
        """CuPy's handle of what is launched."""
        if defines := self.defines():
            return compiled_with(defines, self.source(), self.expression, self._gpu)
        return nvrtc.compiled(self.source(), self.expression, self._gpu)

    def source(self) -> Path:
        """Where the kernel is."""
        return SOURCES[self.operands]

    def defines(self) -> str:
        """Lines before the source."""
        return STAMPED if self._last else ""

    def run(self, model: GrammarMiniGPT, report: Callable[[int, int], Any] | None = None) -> None:
        """Do all of it, and give the model the parameters."""
        try:
            self.start()
            self.wait(report)
        finally:
            # Also where `report` raises, or Ctrl-C comes: the launch ends with its step, and is waited for. Its memory
            # would be lent to others while it writes there.
            self.stop()
            self.put_back(model)

    def start(self) -> None:
        """Launch it on torch's current stream."""
        kernel = self.kernel()
        self._events = _events()
        self._events[0].record()
        # Cooperative: the driver refuses a grid whose blocks could not all run at once, since they wait for each other.
        status = _driver().cuLaunchCooperativeKernel(
            kernel.ptr, self._blocks, 1, 1, THREADS, 1, 1, shared_bytes(self.config),
            torch._C._cuda_getCurrentRawStream(self._gpu), ctypes.addressof(self._addresses),
        )  # fmt: skip
        if status:
            raise RuntimeError(f"the CUDA driver refuses the launch of the training: {driver._name_of(status)}")
        self._events[1].record()

    def wait(self, report: Callable[[int, int], Any] | None) -> None:
        """Return when it has ended."""
        told = 0
        while not self._events[1].query():
            taken = int(self.host[PROGRESS])
            if report is not None and taken != told:
                told = taken
                report(taken, self.steps)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if report is not None:
            report(int(self.host[PROGRESS]), self.steps)

    def stop(self) -> None:
        """Have it end after the step that it is at, if it has not ended, and wait for that."""
        self.host[STOP] = 1
        _wait_for_stream(self._gpu)

    def put_back(self, model: GrammarMiniGPT) -> None:
        """Give the model the parameters."""
        parameters, at = dict(model.named_parameters()), 0
        with torch.no_grad():
            for name in self.config.shapes:
                parameter = parameters[torch_name(name)]
                parameter.copy_(self.parameters[at : at + parameter.numel()].view_as(parameter))
                at += parameter.numel()

    def trained(self, evaluated: bool) -> Trained:
        """What the kernel has recorded."""
        taken, record = int(self.host[PROGRESS]), self.record.cpu().numpy()
        losses, norms = record[: 2 * taken].reshape(taken, 2).T
        held_out = []
        if evaluated:
            times = [phase.time for phase in self.phases for _ in range(phase.steps)]
            due = [n for n in range(1, self.steps + 1) if n % self.evaluate_every == 0 or n == self.steps]
            # rows are as long as those of the steps before
            rows = [(0, times[0]), *((n, times[n - 1]) for n in due)]
            found = record[2 * self.steps :]
            held_out = [(n, length, float(found[i])) for i, (n, length) in enumerate(rows) if n <= taken]
        return Trained(losses.copy(), norms.copy(), held_out, self._events[0].elapsed_time(self._events[1]) / 1000)


class _Replayed(_Launch):
    """The same training as CUDA graphs that are replayed one after the other."""

    expression = graph.EXPRESSION

    def source(self) -> Path:
        """Where the kernel is."""
        return graph.SOURCE

    def defines(self) -> str:
        """Lines before the source."""
        return super().defines() + (DEEP if self.deep else "") + BFLOAT16 * (self.operands == "bfloat16")

    def start(self) -> None:
        """Capture the graphs."""
        self.deep = not fits(self.config, softmax_cuda.largest_shared_bytes(self._gpu))
        values = self._values
        memory = [*values[:PHASES], *values[PHASES + 1 : len(self._memory)]]
        layers, words, positions, bos, room, _, steps, _, *rates = values[
            len(self._memory) : len(values) - len(self._last)
        ]
        numbers = [layers, words, positions, bos, room, steps, *rates]
        given = Given(
            self.config, memory, numbers, self.phases, self._held_out, self._blocks, self._gpu, self._last, self.deep
        )
        self._replays = Replays(given, self.evaluate_every, self.kernel())
        self._events = _events()
        self._events[0].record()

    def wait(self, report: Callable[[int, int], Any] | None) -> None:
        """Ask for graph after graph, and return when the last has ended."""
        try:
            for _ in self._replays.run():
                if self.host[STOP]:  # the loss is no longer finite
                    break
                if report is not None:
                    report(int(self.host[PROGRESS]), self.steps)
        finally:
            self._events[1].record()
        super().wait(report)


WAYS = {ONE: _Launch, GRAPH: _Replayed}


def timeline(model: GrammarMiniGPT, tokens: TokenStream, batch: int, length: int, *, launches: str = ONE) -> np.ndarray:
    """Train for a few steps, and have every block write down what it does in the last.

    Args:
        model: as `train` takes it; it is trained.
        tokens, launches: as `train` takes them.
        batch, length: of every step.

    Returns:
        (blocks, EVENTS, 2) int64, of `graph` those of three launches: row 0 of a block is the multiprocessor and the
        global timer in ns at its start, row 1 zero and its clock at the start; then come codes of spans (256 times the
        part of the step, and 1 memory, 2 arithmetic, 3 waiting) with the clock at their ends; unused rows are zero.
    """
    gpu, phases = _check_place(model), [Phase(WATCHED, batch, length)]
    blocks = softmax_cuda.multiprocessors(gpu)
    check_model(model.config, softmax_cuda.largest_shared_bytes(gpu))
    check_phases(model.config, phases, blocks)
    made = tables(tokens, phases, DEFAULTS, 0, None)
    stamps = torch.zeros(3 * blocks, EVENTS, 2, dtype=torch.int64, device=model.lm_head.weight.device)
    with torch.cuda.device(gpu):
        launch = WAYS[launches](model, phases, made, DEFAULTS, tokens.bos, 1, blocks, "float32", stamps)
        launch.run(model)
    found = stamps.cpu().numpy()
    return found[found[:, 0, 1] > 0]  # blocks that were there


@functools.cache
def compiled_with(defines: str, path: Path, expression: str, device: int) -> Any:
    """As `nvrtc.compiled`, with lines before the source."""
    import cupy

    with cupy.cuda.Device(device):
        function = cupy.RawModule(
            code=defines + nvrtc.source(path), options=softmax_cuda.COMPILER_OPTIONS, backend="nvrtc",
            name_expressions=(expression,),
        ).get_function(expression)  # fmt: skip
        function.max_dynamic_shared_size_bytes = softmax_cuda.largest_shared_bytes(device) - function.shared_size_bytes
        return function.kernel


def instances() -> list[str]:
    """The kernel, as the tests compile it for a GPU that is not here."""
    return [EXPRESSION]


def _check_place(model: GrammarMiniGPT) -> int:
    """The number of the model's GPU.

    Raises:
        LabError: it is on none, or on one that is too old, or it is not float32 throughout.
    """
    weight, others = model.lm_head.weight, {(each.dtype, each.device) for each in model.parameters()}
    if weight.device.type != "cuda":
        raise LabError(
            f"the training in one launch runs on a GPU, and this model is on {weight.device}; move it with .to."
        )
    if others != {(torch.float32, weight.device)}:
        raise LabError("the training in one launch takes float32 parameters, all on one GPU; convert or move them.")
    if torch.cuda.get_device_capability(weight.device)[0] < 9:
        raise LabError(
            "the training in one launch needs the copy engine of compute capability 9.0, and this GPU is older; train "
            "with minimodel.training."
        )
    return weight.get_device()


def _shared_with_host() -> Tensor:
    # pinned: the kernel reads and writes the host's memory where it is
    return torch.zeros(2, dtype=torch.int32).pin_memory()


def _wait_for_stream(gpu: int) -> None:
    torch.cuda.current_stream(gpu).synchronize()


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def _driver() -> Any:
    library = driver.library()
    library.cuLaunchCooperativeKernel.argtypes = (c_void_p, *[c_uint] * 7, c_void_p, c_void_p)
    return library
