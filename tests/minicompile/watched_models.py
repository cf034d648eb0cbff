"""Watches the models of `zoo/` with the torch that is installed, keeps what was seen, and says which differ.

`python tests/minicompile/watched_models.py` for the CPU and for a simulated GPU; `--target cuda` on a machine with a
GPU. What is concluded from a compile is tested on what is kept; a dozen models are watched anew in the tests and must
be what is kept.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from zoo_models import KEPT, NAMES, TARGETS, ZOO, load, path_of, watched

from minicompile.watching.watched import Watched, read_watched
from minilab.files import write_bytes

COUNTED = re.compile(r"(__compiled_fn_|__temp_|AOT ID: \['|__resume_at_\d+_|triton_b?mm_|CppMicroGemm\w+?_)\d+")
CLOCKS = ("seconds", "phases", "environment", "device", "gpu")  # what is another on another day or machine


def minor() -> str:
    """The minor version of the installed torch."""
    return ".".join(torch.__version__.split(".")[:2])


def told(made: Watched) -> dict:
    """A watch without what differs from one day, machine or process to the next.

    A process numbers its compiles, their graphs and the calls that autograd will differentiate one after the other.
    """
    alike = {name: value for name, value in made.items() if name not in CLOCKS}
    guards = bool(made["guards"])  # what a guard asks for depends on what the process has imported and compiled
    alike |= {"guards": guards, "compiles": [{**one, "seconds": 0} for one in made["compiles"]]}
    alike = json.loads(COUNTED.sub(r"\1N", json.dumps(alike)))
    numbers: dict[int | None, int] = {}
    graphs = [*alike["dynamo"], *alike["joint"], *(one["aten"] for one in alike["lowered"])]
    for node in (node for graph in graphs for node in graph["nodes"]):
        node["sequence"] = numbers.setdefault(node["sequence"], len(numbers))
    for call in (call for one in alike["lowered"] for call in one["calls"]):
        del call["handle"]
    for node in (node for one in alike["lowered"] for node in one["inner_nodes"]):
        node["sequence"] = numbers.setdefault(node["sequence"], len(numbers))
    return alike


def keep(name: str, target: str, kept: Path, models: Path = ZOO) -> str:
    """Watch a model and keep that, unless what is kept says the same: `same`, `new`, `differs`, or what went wrong."""
    path = path_of(name, target, minor(), kept)
    try:
        text = json.dumps(watched(name, target, models), ensure_ascii=False, separators=(",", ":"))
        if path.exists() and told(read_watched(path)) == told(json.loads(text)):
            return "same"
        state = "differs" if path.exists() else "new"
        write_bytes(path, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    except Exception as error:  # a model that fails is a line that says so
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return state


def keep_all(pairs: list[tuple[str, str]], kept: Path, jobs: int, models: Path = ZOO) -> dict[tuple[str, str], str]:
    """What became of each (model, target), watched in processes of their own: one that crashes takes no other along."""
    states: dict[tuple[str, str], str] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {pair: pool.submit(keep, *pair, kept, models) for pair in pairs}
        for number, (pair, future) in enumerate(waiting.items(), 1):
            states[pair] = str(future.exception() or future.result())
            print(f"{number}/{len(pairs)} {'.'.join(pair)}: {states[pair]}", file=sys.stderr, flush=True)
    for pair in [pair for pair, state in states.items() if "process pool" in state]:  # the others only waited
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            future = pool.submit(keep, *pair, kept, models)
            states[pair] = str(future.exception() or future.result())
    return states


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=(*TARGETS, "cuda"), help="again for several")
    parser.add_argument("--jobs", type=int, default=2, help="models that are watched at a time")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FOLDER", help="where they are kept")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all of the zoo by default")
    asked = parser.parse_args()
    if unknown := set(asked.models) - set(NAMES):
        parser.error(f"the zoo has no {', '.join(sorted(unknown))}; its models are the files of tests/minicompile/zoo")
    pairs = [
        (name, target)
        for name in asked.models or NAMES
        for target in asked.target or TARGETS
        if target in load(name).targets or target == "cuda"
    ]
    os.chdir(Path(__file__).parents[2])  # from which the paths of sources are told
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # there are processes enough
    states = keep_all(pairs, asked.kept, asked.jobs)
    print("\n".join(f"{'.'.join(pair)}: {state}" for pair, state in states.items() if state != "same"))
    counted = Counter(state.partition(":")[0] for state in states.values())
    print(f"torch {torch.__version__}: {', '.join(f'{count} {state}' for state, count in counted.items())}")
    return int(not states.keys() or not set(states.values()) <= {"same", "new"})


if __name__ == "__main__":
    sys.exit(main())
