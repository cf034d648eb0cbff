"""Every switch of Inductor's that changes the code of some models, found by trying each.

A switch is a setting with a few values (`minicompile.torch_private.settings.switches`). A compile that does not ask for
one cannot follow it, so only those are tried that the models' compiles ask for. Each try is a process of its own that
writes the code and builds nothing: what one compile remembers would answer the next one's questions. On the first
model each value is tried alone. What changed nothing there is tried on the next model in one go, in halves while
something changes: a value of many that change nothing together changes nothing.
"""

import contextlib
import importlib
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from minicompile.models import CapturedModel
from minicompile.torch_private.names import owner
from minicompile.torch_private.profiling import caches_in
from minicompile.torch_private.settings import asked, now, switches
from minicompile.torch_private.written import HELD, written
from minicompile.watching.model import call_arguments
from minilab import LabError

FORMAT = 1
# Comments quote the process' own counts, and what is noted for a launch repeats the settings themselves.
NO_CODE = re.compile(r"\s*(?:#(?!pragma|include)|//|inductor_meta=)")
KERNEL = re.compile(r"^\w+ = async_compile\.", re.M)
SLOWER = 20  # times as long as the model's own compile may a try take, and never less than MINUTE
MINUTE = 60.0
FIRST = 900.0  # seconds that a compile with nothing set may take

Value = tuple[str, Any]  # a switch's name, and what it is set to


def found_switches(models: Sequence[CapturedModel], target: str, at_once: int = 1) -> dict:
    """Try every switch that the models' compiles ask for.

    Args:
        models: on the CPU; the smallest first.
        target: `cpu` or `simulated`.
        at_once: how many tries run side by side.

    Returns:
        What schemas/switches.schema.yaml describes: how many switches there are, how many each model asks for, those
        that change a model's code, with the counts of both sides, and those with which a model does not compile.

    Raises:
        LabError: a model does not compile as it is, or twice to different code.
    """
    known, left = switches(), list[Value]()
    result: dict[str, Any] = {
        "format": FORMAT,
        "torch": torch.__version__,
        "target": target,
        "models": [],
        "switches": len(known),
        "held": sorted(HELD.keys() & known.keys()),
        "changes": [],
        "fails": [],
    }
    tried, settled = set[str](), set[Value]()
    for model in models:
        before, limit, names = _as_it_is(model, target)
        result["models"].append({"name": model.name, "asks": len(names & known.keys())})
        new = [(name, value) for name in sorted(names & known.keys() - HELD.keys()) for value in known[name]]
        alone = [[one] for one in new if one[0] not in tried]
        tried |= {name for name, _ in new}
        groups = alone + _apart([one for one in left if one[0] in names])
        while groups:
            halves = []
            options = [dict(group) for group in groups]
            for group, after in zip(groups, _in_turn(model, target, options, limit, at_once), strict=True):
                if not isinstance(after, str) and after["code"] == before["code"]:
                    continue
                if len(group) > 1:
                    halves += [group[: len(group) // 2], group[len(group) // 2 :]]
                    continue
                name, value = group[0]
                settled.add(group[0])
                told = {"name": name, "default": str(now(name)), "value": str(value), "model": model.name}
                if isinstance(after, str):
                    result["fails"].append({**told, "said": after})
                else:
                    counted = {what: [before[what], after[what]] for what in ("lines", "kernels")}
                    result["changes"].append({**told, **counted})
            groups = halves
        left = [one for one in dict.fromkeys([*left, *new]) if one not in settled]
    for what in ("changes", "fails"):
        result[what].sort(key=lambda one: (one["name"], one["value"]))
    return result


def _apart(values: list[Value]) -> list[list[Value]]:
    """Values in as few groups as hold each switch once."""
    groups: list[dict[str, Any]] = []
    for name, value in values:
        group = next((one for one in groups if name not in one), None)
        if group is None:
            groups.append(group := {})
        group[name] = value
    return [list(group.items()) for group in groups]


def _as_it_is(model: CapturedModel, target: str) -> tuple[dict, float, set[str]]:
    """The code with nothing set, how many seconds a try may take, and the names of the settings that were asked for."""
    began = time.perf_counter()
    tries = []
    for _ in range(2):
        (one,) = _in_turn(model, target, [{}], FIRST, 1)
        if isinstance(one, str):
            raise LabError(f"model {model.name} does not compile with nothing set: {one}; mend the model.")
        for name in one["modules"] - sys.modules.keys():  # else each try would import them, which takes longest
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        tries.append(one)
    first, again = tries
    if first["code"] != again["code"]:
        raise LabError(
            f"model {model.name} compiles to other code each time, so that no switch can be told; fix a seed."
        )
    return first, max(MINUTE, SLOWER * (time.perf_counter() - began) / 2), first["asked"]


def _in_turn(
    model: CapturedModel, target: str, options: list[dict], limit: float, at_once: int
) -> Iterator[dict | str]:
    """What comes of a compile with each of the options, in their order; a sentence where it fails."""
    owner("compile_fx")  # imports it, else each process would
    context, results = multiprocessing.get_context("fork"), dict[int, dict | str]()
    running: dict[Connection, tuple[int, Any, float]] = {}
    waiting = list(enumerate(options))
    while waiting or running:
        while waiting and len(running) < at_once:
            number, one = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_told, args=(theirs, lambda one=one: _once(model, target, one)), daemon=True
            )
            process.start()
            theirs.close()
            running[ours] = number, process, time.monotonic() + limit
        ready = wait(list(running), timeout=1.0)
        for pipe, (number, process, until) in list(running.items()):
            if pipe in ready:
                try:
                    results[number] = pipe.recv()
                except EOFError:
                    process.join()
                    results[number] = f"the process ended with {process.exitcode}"
            elif time.monotonic() > until:
                process.kill()
                results[number] = f"it took more than {limit:.0f} s"
            else:
                continue
            process.join()
            pipe.close()
            del running[pipe]
    return (results[number] for number in range(len(options)))


def _told(pipe: Connection, work: Callable[[], dict]) -> None:
    """In a try's process: what comes of it, in a folder of its own, since some switches write traces, or to stderr."""
    torch.set_num_threads(1)  # OpenMP's other threads are not in a fork, which would wait for them for ever
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        with tempfile.TemporaryDirectory() as folder, caches_in(Path(folder)):
            os.chdir(folder)
            made = work()
            os.chdir("/")
        pipe.send(made)
    except BaseException as error:  # of any kind: it is the try's result
        said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        pipe.send(re.sub(r" \(/[^)]*\)", "", said)[:200])  # without the file of a module, which is another elsewhere


def _once(model: CapturedModel, target: str, options: dict) -> dict:
    args, kwargs = call_arguments(model.module, model.inputs, model.kwargs)
    given = {**(model.options or {}), **options}
    with contextlib.nullcontext(set[str]()) if options else asked() as names:
        texts = written(model.module, args, kwargs, target=target, train=model.train, options=given)
    lines = [line for text in texts for line in text.splitlines()]
    return {
        "code": [line for line in lines if not NO_CODE.match(line)],
        "lines": len(lines),
        "kernels": sum(len(KERNEL.findall(text)) for text in texts),
        "asked": set(names),
        "modules": set() if options else {name for name in sys.modules if name != "__main__"},
    }
