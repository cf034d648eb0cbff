"""What watching a compile costs: `python benchmarks/capture.py [--targets cpu simulated] [--models NAME ...]`.

Every model of the checker (`tests/minicompile/zoo`) and MiniGPT is compiled cold, with and without the capture, the two
taking turns in one process: each time with an empty cache folder, all caches off and Dynamo reset. What a process does
once (imports, the precompiled header, tracing Inductor's patterns) is done before, so that it does not hide the cost.

On the target `cpu` the other side is plain `torch.compile`, g++ and the first call included. `simulated` has no such
counterpart; there it is the same compile without any of the hooks, its kernels compiled once by Triton, as for a GPU.
`--written` leaves g++ and Triton out on both sides: a quicker look, and a stricter one, at what the hooks cost.

The ratio is that of the least CPU seconds of each side, this process' and its children's (g++): what else the machine
does can only add to a time, and adds less to CPU seconds than to the wall's, which are printed beside them.
The target, at most 1.1 for every model, decides the exit code. A model that needs no kernel of g++'s compiles in a
tenth of a second or two; there the fixed part of a capture shows most.
"""

import argparse
import contextlib
import gc
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "minicompile")]

import torch  # noqa: E402
import zoo_models  # noqa: E402
from captured import FAST  # noqa: E402
from torch._inductor import compile_fx as inductor  # noqa: E402
from torch._inductor.async_compile import AsyncCompile  # noqa: E402
from torch._inductor.graph import GraphLowering  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402

from minicompile.capturing import capture  # noqa: E402
from minicompile.torch_private import simulated  # noqa: E402
from minicompile.watching.machine.triton import TritonKernels  # noqa: E402
from minicompile.watching.model import loss_of  # noqa: E402

TARGET = 1.1
WARM_UP = ("softmax", "batch_norm_train", "sdpa", "matrix_chain")  # patterns of every pass, forward and backward
KERNEL = re.compile(r"^(\w+) = async_compile\.triton\('(\w+)', '''\n(.*?)''', device_str=", re.M | re.S)
CHECKPOINT = ROOT / "results/17/checkpoint.npz"


@dataclass
class Model:
    """A model to compile; `make` builds it and its inputs anew."""

    name: str
    make: Callable[[], tuple]
    train: bool
    targets: tuple[str, ...] = zoo_models.TARGETS


@dataclass
class Side:
    """The turns of one side, in seconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def minigpt() -> tuple:
    """MiniGPT as the lab trained it, or of its sizes with random weights, and its inputs."""
    from minicompile import models
    from minimodel import GrammarMiniGPT, MiniGPTConfig

    if CHECKPOINT.exists():
        made = models.minigpt(CHECKPOINT)
        return made.module, made.inputs
    torch.manual_seed(0)
    module = GrammarMiniGPT(MiniGPTConfig(vocab_size=600, block_size=128))
    return models.NextWord(module, models.last_axis_softmax), (torch.randint(0, 600, (2, 16)),)


def all_models() -> dict[str, Model]:
    found = {name: zoo_models.load(name) for name in zoo_models.NAMES}
    zoo = {name: Model(name, one.make, one.train, one.targets) for name, one in found.items()}
    return {**zoo, "minigpt": Model("minigpt", minigpt, train=False)}


@contextlib.contextmanager
def nothing_built() -> Iterator[None]:
    """Kernels are written, and neither g++ nor Triton compiles them."""
    with (
        mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None),
        mock.patch("minicompile.watching.plain._add_machine_code", return_value=[]),
        torch._inductor.config.patch(FAST),
    ):
        yield


def bare(module: Callable, inputs: tuple, train: bool, target: str, build: bool = True) -> None:
    """The compile and the first call that `capture` watches, without it."""
    with (
        torch._inductor.config.patch(force_disable_caches=True),
        torch.enable_grad() if train or not isinstance(module, torch.nn.Module) else torch.no_grad(),
        contextlib.ExitStack() as stack,
    ):
        codes = enter_simulation(stack) if target == "simulated" else []
        result = torch.compile(module)(*inputs)
        if train and target == "cpu":
            loss_of(result).backward()
    for code in codes if build else ():
        kernels = {name: (function, text) for name, function, text in KERNEL.findall(code)}
        with TritonKernels(target) as triton:
            triton.compiled(kernels, lambda _text: None)


def enter_simulation(stack: contextlib.ExitStack) -> list[str]:
    """Write Triton for the H200 that is not here, and run nothing; returns where the codes are put."""
    codes: list[str] = []

    def leave(code: str) -> None:
        codes.append(code)
        raise simulated.CodeWritten

    stack.enter_context(simulated.driver_stand_in())
    stack.enter_context(torch._inductor.config.patch(simulated.CONFIG))
    stack.enter_context(torch._functorch.config.patch(force_non_lazy_backward_lowering=True))
    stack.enter_context(mock.patch.object(GraphLowering, "save_output_code", leave))
    stack.enter_context(mock.patch.object(inductor, "compile_fx", partial(to_triton, inductor.compile_fx)))
    return codes


def to_triton(compile_fx: Callable, module: torch.fx.GraphModule, inputs: list, **options) -> Callable:
    """In the place of Inductor's entry: a graph's code is written for the simulated H200, and computed on the CPU."""
    if "inner_compile" in options:  # it calls itself
        return compile_fx(module, inputs, **options)

    def inner(module, inputs, **kwargs):
        with simulated.gpu_stand_in(), contextlib.suppress(simulated.CodeWritten):
            inductor.compile_fx_inner(*simulated.on_gpu(module, inputs), **kwargs)
        return lambda *_: None

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        table = simulated.decompositions()
        compile_fx(simulated.copied(module), inputs, inner_compile=inner, decompositions=table, **options)
    return partial(simulated.results, module)


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def turn(model: Model, target: str, watched: bool, side: Side, build: bool = True) -> None:
    """One cold compile, added to a side."""
    module, inputs = model.make()
    torch._dynamo.reset()
    gc.collect()
    with fresh_cache(), contextlib.nullcontext() if build else nothing_built():
        wall, cpu = time.perf_counter(), cpu_seconds()
        if watched:
            capture(module, inputs, target=target, train=model.train, name=model.name)
        else:
            bare(module, inputs, model.train, target, build)
        side.wall.append(time.perf_counter() - wall)
        side.cpu.append(cpu_seconds() - cpu)


def compared(model: Model, target: str, turns: int, build: bool = True) -> tuple[Side, Side]:
    """The two sides of a model; who goes first changes with each turn."""
    plain, captured = Side(), Side()
    for number in range(turns):
        for watched in (False, True) if number % 2 == 0 else (True, False):
            turn(model, target, watched, captured if watched else plain, build)
    return plain, captured


def main() -> int:
    models = all_models()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=zoo_models.TARGETS, default=zoo_models.TARGETS)
    parser.add_argument("--models", nargs="+", choices=sorted(models), default=list(models), metavar="NAME")
    parser.add_argument("--turns", type=int, default=3, help="compiles of each side")
    parser.add_argument("--written", action="store_true", help="leave g++ and Triton out on both sides")
    arguments = parser.parse_args()
    build = not arguments.written
    ratios: dict[str, float] = {}
    for target in arguments.targets:
        for name in WARM_UP:
            for watched in (False, True):
                turn(models[name], target, watched, Side(), build)
        print(f"{target}: least of {arguments.turns} turns, bare and captured\n")
        print(f"{'model':24} {'CPU seconds':>15} {'ratio':>6} {'wall seconds':>16} {'ratio':>6}")
        for name in arguments.models:
            if target not in models[name].targets:
                continue
            plain, captured = compared(models[name], target, arguments.turns, build)
            ratio = ratios[f"{name} ({target})"] = min(captured.cpu) / min(plain.cpu)
            wall = min(captured.wall) / min(plain.wall)
            print(
                f"{name:24} {min(plain.cpu):7.2f} {min(captured.cpu):7.2f} {ratio:6.2f} "
                f"{min(plain.wall):8.2f} {min(captured.wall):7.2f} {wall:6.2f}",
                flush=True,
            )
        print()
    over = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > TARGET]
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"largest ratio: {worst} {ratios[worst]:.2f}; target: at most {TARGET}")
    print(f"over it: {', '.join(over) or 'none'} ({len(over)} of {len(ratios)})")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
