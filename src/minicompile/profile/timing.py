"""Times eager and each of torch.compile's modes at one shape, all in turn in one process, each a second time.

So every mode can be compared with eager and with the others; what two timings of one side differ by is the noise.
"""

import copy
import itertools
import logging
from pathlib import Path

import torch

from minicompile.models import CapturedModel
from minicompile.profile.breakdown import DIGITS
from minicompile.profile.busy import watched
from minicompile.profile.figures import side
from minicompile.profile.subject import Step, gradients, seconds_of, shape_of, step, subject, unit
from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import compile_report
from minicompile.safe.safe_compile import maybe_compile
from minicompile.torch_private.profiling import caches_in, fresh_caches

SLOW_SECONDS = 0.02  # a call that takes longer is timed only as often as fits into the seconds below
SLOW_CALLS_SECONDS = 2.0
FEWEST_CALLS = 10
WARMUP = 10  # rounds before any is counted
EAGER = "eager"
log = logging.getLogger("minilab")


def affordable_calls(call: Step, calls: int) -> int:
    """Decide how many of `calls` to time: all, or those of two seconds (10 at least) where one takes over 20 ms."""
    seconds = min(seconds_of(call) for _ in range(5))
    return calls if seconds <= SLOW_SECONDS else min(calls, max(FEWEST_CALLS, int(SLOW_CALLS_SECONDS / seconds)))


def time_modes(made_of: dict, configs: list[dict], calls: int, device: str, caches: dict[str, str]) -> dict:
    """Time a model eager and compiled in each of several modes, call by call in turn.

    Args:
        made_of: keyword arguments of `minicompile.profile.subject.subject`, but for the device.
        configs: fields of `CompileConfig`, one for each mode.
        calls: warm calls of each side, half of them its second timing; fewer where a call is slow.
        device: a torch device.
        caches: for each mode the folder that its first compile has filled.

    Returns:
        `shape`, `unit`, `calls`; `busy`, what else the machine did meanwhile; `sides`, eager and every mode, as
        `side` gives them; and `recompiles` among the timed calls, by mode.
    """
    made = subject(**made_of, device=device)
    counted, count = unit(made)
    steps = {EAGER: step(made)}
    modules = {}
    with fresh_caches(), gradients(made):
        calls = affordable_calls(steps[EAGER], calls)
        for config in configs:
            mode = config["mode"]
            copied = CapturedModel(**{**vars(made), "module": copy.deepcopy(made.module)})
            modules[mode] = copied.module
            cfg = CompileConfig.from_dict({**config, "enabled": True, "healthcheck": False, "fail_policy": "raise"})
            maybe_compile(copied.module, cfg, log)
            steps[mode] = step(copied)
            with caches_in(Path(caches[mode])):
                for _ in range(3):
                    _step_seconds(steps[mode])
        before = {mode: len(compile_report(module).recompiles) for mode, module in modules.items()}
        with watched() as found:
            taken = in_turn(steps, max(1, calls // 2))
        recompiles = {mode: len(compile_report(module).recompiles) - before[mode] for mode, module in modules.items()}
    return {
        "shape": shape_of(made),
        "unit": counted,
        "calls": len(taken[EAGER][0]) * 2,
        "busy": found,
        "sides": {name: side(*samples, tokens=count) for name, samples in taken.items()},
        "recompiles": recompiles,
    }


def in_turn(steps: dict[str, Step], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Time every step twice a round, the others between the two: microseconds, the first timings and the second."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in steps}
    for number in range(WARMUP + rounds):
        for again, (name, call) in itertools.product((0, 1), steps.items()):
            seconds = _step_seconds(call)
            if number >= WARMUP:
                taken[name][again].append(round(1e6 * seconds, DIGITS))
    return taken


def _step_seconds(call: Step) -> float:
    torch.compiler.cudagraph_mark_step_begin()
    return seconds_of(call)
