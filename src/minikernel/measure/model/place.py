"""All rungs of the forward pass timed beside one another at one place, and judged there."""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from minikernel.measure.model import accuracy, rungs
from minikernel.measure.model.clocks import Clocked, Side, captured, clock, wait
from minikernel.measure.model.cost import fewest_bytes, flop
from minikernel.measure.model.figures import forward_figures
from minikernel.measure.model.names import ONE
from minikernel.measure.model.rows import ForwardRow, Place
from minikernel.measure.noise import DUPLICATE
from minikernel.reasons import Reason, of_exception, wrong
from minimodel.corpus import TokenStream
from minimodel.torch_minigpt import GrammarMiniGPT

WARM = 2  # calls before a rung is timed: a mode with CUDA graphs records one at its second call


@dataclass
class Timed:
    """A place, and the rungs that were timed there.

    Attributes:
        model: in the place's dtype.
        ids: (B, T) int64.
        forwards, rows: by rung.
        reasons: rung -> why it was left out.
    """

    place: Place
    model: GrammarMiniGPT
    ids: Tensor
    forwards: dict[str, rungs.Forward] = field(default_factory=dict)
    rows: dict[str, ForwardRow] = field(default_factory=dict)
    reasons: dict[str, Reason] = field(default_factory=dict)


def time_place(
    place: Place, params: dict, model: GrammarMiniGPT, text: TokenStream, rate: float, compiling: dict[str, float]
) -> Timed:
    """Time all rungs at one place.

    Args:
        params: launches, warmup, seed, contract.
        model: float32, on the device.
        text: held-out.
        rate: `clocks.cycles_per_us` of the device.
        compiling: rung -> the seconds that are left for its compiles; what they take is subtracted.
    """
    device, dtype, shape = model.lm_head.weight.device, place["dtype"], (place["batch"], place["time"])
    generator = torch.Generator(device).manual_seed(params["seed"])
    ids = torch.randint(0, model.config.vocab_size, shape, generator=generator, device=device)
    # from the float32 weights, for bfloat16 too: its error is then of the dtype as well as of the kernel
    exact = accuracy.exact_probabilities(model, ids)
    its = model if dtype == "float32" else copy.deepcopy(model).to(getattr(torch, dtype))
    made = Timed(place, its, ids)
    sides, first_seconds = {}, {}
    for rung, side, seconds in _able(made, exact, rate, compiling):
        sides[rung], first_seconds[rung] = side, seconds
    if not sides:
        return made
    twice = ONE if ONE in sides else next(iter(sides))
    # the rung that bars are about is timed twice; where it is left out, the first of the others
    clocked = clock({**sides, DUPLICATE: sides[twice]}, params["launches"], params["warmup"], rate)
    held_out = accuracy.held_out(text, *shape, device)
    work = flop(model.config, *shape)
    moved = fewest_bytes(model.config, *shape, getattr(torch, dtype).itemsize)
    for rung, side in sides.items():
        forward = made.forwards[rung]
        # Judged again after the timing: memory that a rung uses again may have been spoiled meanwhile.
        probabilities = forward(ids)
        error = accuracy.error_of(probabilities, exact)
        if not error <= accuracy.TOLERANCES[dtype]:
            made.reasons[rung] = wrong(error, accuracy.TOLERANCES[dtype], "wrong_after_timing")
            continue
        # the port's tolerances are for float32; bfloat16 is judged by its loss on held-out text
        judged = dtype == "float32"
        made.rows[rung] = {
            "rung": rung,
            **place,
            **forward_figures(rung, twice, clocked, work),
            "in_graph": side.in_graph,
            "max_rel_err": error,
            "tolerance_used": accuracy.tolerance_used(probabilities, exact, **params["contract"]) if judged else None,
            "loss": accuracy.loss_of(forward, held_out),
            "loss_tokens": held_out.tokens,
            "first_call_seconds": first_seconds[rung],
            "launches": params["launches"],
            "duplicated": twice,
            "flop": work,
            "bytes": moved,
            "flop_per_byte": work / moved,
            "stamped": None,
            "kernels": None,
            "kernels_us": None,
            "parts": None,
            "samples_us": _kept(clocked, rung, first=not made.rows, clock="device_us"),
            "wall_samples_us": _kept(clocked, rung, first=not made.rows, clock="wall_us"),
        }
    return made


def _able(made: Timed, exact: Tensor, rate: float, compiling: dict[str, float]) -> Iterator[tuple[str, Side, float]]:
    """Each rung that runs and is right: its name, what is timed of it, and the seconds of its first call."""
    dtype = made.place["dtype"]
    for rung, forward in rungs.forwards(made.model).items():
        if compiling.get(rung, 1) <= 0:
            made.reasons[rung] = {"code": "compile_time_used_up"}
            continue
        call, started = partial(forward, made.ids), time.monotonic()
        try:
            result = call()
            wait()
            seconds = time.monotonic() - started
            error = accuracy.error_of(result, exact)
            if not error <= accuracy.TOLERANCES[dtype]:
                made.reasons[rung] = wrong(error, accuracy.TOLERANCES[dtype])
                continue
            for _ in range(WARM):
                call()
            side = _side(rung, forward, call, bool(rate))
        except Exception as failure:  # a kernel may refuse, a compiler may fail
            made.reasons[rung] = of_exception(failure)
            continue
        # a refusal costs its compile time as well
        finally:
            if rung in compiling:
                compiling[rung] -= time.monotonic() - started
        made.forwards[rung] = forward
        yield rung, side, seconds


def _side(rung: str, forward: rungs.Forward, call: Callable[[], Tensor], on_gpu: bool) -> Side:
    """What is timed of a rung; of the lab's own, the device's clock sees the replay of a CUDA graph.

    Those of torch.compile's modes that bring graphs copy the ids into one at each call; what that takes is theirs.
    """
    # its own graph, without the copy of the ids into it
    if isinstance(forward, rungs.Replayed):
        return Side(call, forward.replay, True)
    # In a graph of its own, so that the device's clock sees the kernel and not the host that launches it.
    if on_gpu and rung == ONE:
        return Side(call, captured(call), True)
    return Side(call, call)


def _kept(clocked: dict[str, Clocked], rung: str, first: bool, clock: str) -> dict[str, list[float]]:
    """The samples that a row keeps: its own, and in a place's first row the duplicate's."""
    return {name: getattr(clocked[name], clock) for name in (rung, *((DUPLICATE,) if first else ()))}
