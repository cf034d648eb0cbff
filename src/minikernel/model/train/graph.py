"""The training's rung `graph`: each step is three launches (`phases.cu`), many steps a CUDA graph, which is replayed.

A launch may begin before the one before it has ended (programmatic dependent launch). The host is a few replays ahead,
so that the GPU does not wait for it, and not more, so that a training that is to end does so soon.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, byref, c_char, c_int, c_uint, c_void_p
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minikernel.model import driver, nvrtc
from minikernel.model.train.layout import ROWS, SHARED_BARRIERS, SHARED_LAYER, SHARED_UNIT, THREADS, Phase, shared_bytes
from minimodel.model_config import MiniGPTConfig

SOURCE = Path(__file__).parent / "phases.cu"
EXPRESSION = "train_phase"
TILES, GRADIENTS, UPDATE, HELD_OUT, HELD_OUT_SUM, PACK = range(6)
STATE = 4  # numbers
STEPS = 20  # of a graph
AHEAD = 3  # graphs that the GPU has not begun
PROGRAMMATIC_STREAM_SERIALIZATION = 6  # a CUlaunchAttributeID: the launch may begin early


class Segment(NamedTuple):
    """Steps of one phase, and whether an evaluation follows; none where one comes before the first step."""

    phase: int
    steps: int
    evaluates: bool


class Given(NamedTuple):
    """What the kernels of a training are given.

    Attributes:
        before, after: ctypes' values of the kernel's parameters before and behind the `state`.
        last: those behind all others.
        deep: whether what is kept of layers is in global memory.
        phases: the schedule.
        held_out: of each phase its held-out rows, and where these begin among all rows.
        blocks: of the launches that use the whole GPU.
    """

    config: MiniGPTConfig
    before: list[Any]
    after: list[Any]
    phases: list[Phase]
    held_out: list[tuple[int, int]]
    blocks: int
    gpu: int
    last: tuple[Any, ...] = ()
    deep: bool = False


class Replays:
    """A training that is replayed graph by graph, on torch's current stream.

    Args:
        given: what the kernels are given; who makes this keeps the memory.
        evaluate_every: steps between evaluations, where there are held-out rows.
        function: the kernel, where it is not compiled as it is: CuPy's handle.
        dependent: launches may begin before the one before them has ended; else what that saves can be measured.
    """

    def __init__(self, given: Given, evaluate_every: int, function: Any = None, *, dependent: bool = True) -> None:
        self._given, self._dependent = given, dependent
        self._behind = torch.empty(
            given.blocks * given.config.n_layer * SHARED_LAYER if given.deep else 0, device=_device(given.gpu)
        )
        self._state = torch.zeros(STATE, dtype=torch.int32, device=_device(given.gpu))
        self._function = function or nvrtc.compiled(SOURCE, EXPRESSION, given.gpu)
        cut = segments(given.phases, evaluate_every, evaluates=given.held_out[0][0] > 0)
        self._parts = [part for segment in cut for part in parts_of(segment)]
        self._graphs = {part: _captured(partial(self._launch, part)) for part in dict.fromkeys(self._parts)}

    def run(self) -> Iterator[None]:
        """Have the GPU do all of it, yielding after each graph that was asked for; one may end the iteration there."""
        waiting = deque[torch.cuda.Event]()
        self._one(PACK, self._given.blocks, SHARED_UNIT, (1, ROWS, 0, 0))
        for part in self._parts:
            self._graphs[part]()
            waiting.append(_event())
            waiting[-1].record()
            if len(waiting) > AHEAD:
                waiting.popleft().synchronize()
            yield

    def _launch(self, part: Segment) -> None:
        given, phase = self._given, self._given.phases[part.phase]
        before = given.phases[: part.phase]
        first = sum(each.steps for each in before), sum(each.steps * each.batch for each in before)
        of_tiles = phase.time // ROWS
        tiles = min(given.blocks // of_tiles, phase.batch) * of_tiles
        shape = (phase.batch, phase.time, *first)
        whole = shared_bytes(given.config, given.deep) // 4 - SHARED_BARRIERS
        for _ in range(part.steps):
            self._one(TILES, tiles, whole, shape)
            self._one(GRADIENTS, given.blocks, SHARED_UNIT, shape)
            self._one(UPDATE, given.blocks, SHARED_UNIT, shape)
        if part.evaluates:
            count, begin = given.held_out[part.phase]
            held_out = count, phase.time, 0, begin
            self._one(HELD_OUT, given.blocks, whole, held_out)
            self._one(HELD_OUT_SUM, 1, SHARED_UNIT, held_out)

    def _one(self, role: int, blocks: int, floats: int, shape: tuple[int, ...]) -> None:
        given = self._given
        values = [
            *given.before, c_void_p(self._state.data_ptr()), c_void_p(self._behind.data_ptr()), *given.after,
            *map(c_int, (role, given.blocks, *shape)), *given.last,
        ]  # fmt: skip
        addresses = (c_void_p * len(values))(*map(ctypes.addressof, values))
        shared = 4 * (SHARED_BARRIERS + floats)
        config = _Config((blocks, 1, 1), (THREADS, 1, 1), shared, torch._C._cuda_getCurrentRawStream(given.gpu))
        early = _Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, allowed=1)
        if self._dependent:
            config.attributes, config.count = ctypes.pointer(early), 1
        status = _driver().cuLaunchKernelEx(byref(config), self._function.ptr, ctypes.addressof(addresses), None)
        if status:
            raise RuntimeError(f"the CUDA driver refuses a launch of the training: {driver._name_of(status)}")


def segments(phases: list[Phase], evaluate_every: int, evaluates: bool) -> list[Segment]:
    """The schedule, cut where evaluations are due: before the first step, every so many and after the last."""
    found = [Segment(0, 0, evaluates=True)] if evaluates else []
    ends = [sum(phase.steps for phase in phases[: n + 1]) for n in range(len(phases))]
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        due = [n for n in range(begin + 1, end + 1) if n % evaluate_every == 0 or n == ends[-1]] if evaluates else []
        for first, last in pairwise([begin, *due, *([end] if end not in due else [])]):
            found.append(Segment(number, last - first, last in due))
    return found


def parts_of(segment: Segment) -> Iterator[Segment]:
    """A segment as what graphs do: STEPS steps, what is left of them, then the evaluation."""
    whole, rest = divmod(segment.steps, STEPS)
    for steps in (*[STEPS] * whole, *([rest] if rest else [])):
        yield Segment(segment.phase, steps, False)
    if segment.evaluates:
        yield Segment(segment.phase, 0, True)


class _Attribute(Structure):
    # CUlaunchAttribute: the value is a union of 64 bytes
    _fields_ = [("id", c_int), ("_pad", c_int), ("allowed", c_int), ("_rest", c_char * 60)]  # noqa: RUF012


class _Config(Structure):
    # CUlaunchConfig
    _fields_ = [  # noqa: RUF012
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("count", c_uint),
    ]


def instances() -> list[str]:
    """The kernel, as the tests compile it for a GPU that is not here."""
    return [EXPRESSION]


def _captured(launch: Callable[[], None]) -> Callable[[], None]:
    # not by torch.cuda.graph, which collects garbage and gives the memory that the caller has cached back
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launch()
        finally:
            graph.capture_end()
    return graph.replay


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()


def _device(gpu: int) -> torch.device:
    return torch.device("cuda", gpu)


def _driver() -> Any:
    library = driver.library()
    library.cuLaunchKernelEx.argtypes = (POINTER(_Config), c_void_p, c_void_p, c_void_p)
    return library
