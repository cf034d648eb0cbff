"""What was watched of the models of `zoo/`, kept in files: `compiles/{minor of torch}/{target}/{model}.json.xz`.

What is concluded from a compile is tested on these, so that a test of a sentence compiles nothing. A dozen models are
watched anew in the tests and must be what is kept. `python tests/minicompile/watched_models.py` watches all of them
with the torch that is installed and says which differ; with `--target cuda` on a machine with a GPU.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import torch
from zoo_models import NAMES, TARGETS, ZOO, load, watched

from minicompile.watching.watched import Watched, read_watched
from minilab.files import write_bytes

KEPT = Path(__file__).parent / "compiles"
CLOCKS = (
    "seconds",
    "phases",
    "environment",
    "device",
    "gpu",
    "provenance",
)  # what is another on another day or machine


def minor() -> str:
    """The minor version of the installed torch."""
    return ".".join(torch.__version__.split(".")[:2])


def path_of(name: str, target: str, version: str | None = None, kept: Path = KEPT) -> Path:
    return kept / (version or minor()) / target / f"{name}.json.xz"


@cache
def kept_watch(name: str, target: str, version: str | None = None) -> Watched:
    """What is kept of a model's compile."""
    return read_watched(path_of(name, target, version))


def told(made: Watched) -> dict:
    """A watch without what differs from one day, or machine, to the next."""
    alike = {name: value for name, value in made.items() if name not in CLOCKS}
    guards = [line for line in made["guards"] if not line.startswith("Guard latency")]
    return {**alike, "guards": guards, "compiles": [{**one, "seconds": 0} for one in made["compiles"]]}


def keep(name: str, target: str, kept: Path, models: Path = ZOO) -> str:
    """Watch a model and keep that, unless what is kept says the same: `same`, `new`, `differs`, or what went wrong."""
    path = path_of(name, target, kept=kept)
    try:
        made = watched(name, target, models)
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
        if path.exists() and told(read_watched(path)) == told(json.loads(text)):
            return "same"
        state = "differs" if path.exists() else "new"
        write_bytes(path, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    except Exception as error:  # a model that fails is a line that says so
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return state


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
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # there are processes enough
    states: dict[str, int] = {}
    with ProcessPoolExecutor(
        asked.jobs, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=8
    ) as pool:
        waiting = {pair: pool.submit(keep, *pair, asked.kept) for pair in pairs}
        for pair, future in waiting.items():
            state = future.result()
            states[state.partition(":")[0]] = states.get(state.partition(":")[0], 0) + 1
            if state != "same":
                print(f"{'.'.join(pair)}: {state}", flush=True)
    print(f"torch {torch.__version__}: {', '.join(f'{count} {state}' for state, count in states.items())}")
    return int(not states.keys() <= {"same", "new"})


if __name__ == "__main__":
    sys.exit(main())
