"""The configurations that Inductor's heuristics propose for a Triton kernel, and the time of each where it has run."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from minicompile.watching.choosing.hooking import Hooks
from minicompile.watching.machine.triton import TritonKernels

DECORATOR = re.compile(r"^@triton_heuristics\.(\w+)\(", re.MULTILINE)
HINT = re.compile(r"reduction_hint=ReductionHint\.(\w+)")


class KernelTimes:
    """What `CachingAutotuner` timed at a kernel's first call, by the kernel's text."""

    def __init__(self) -> None:
        self._found: list[tuple[str, list[tuple[dict, float]]]] = []

    def patches(self, hooks: Hooks) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile and its first call."""
        yield from hooks.around("kernel_times", self._benchmark)

    def of(self, text: str) -> list[tuple[dict, float]]:
        """(configuration, milliseconds) of a kernel with this text; empty where nothing was timed."""
        return next((times for source, times in reversed(self._found) if text.strip() in source), [])

    def best(self, text: str) -> dict | None:
        """The configuration that was the fastest for a kernel with this text; None where nothing was timed."""
        times = self.of(text)
        return min(times, key=lambda one: one[1])[0] if times else None

    def _benchmark(self, original):
        def benchmark_all_configs(autotuner, *args, **kwargs):
            times = original(autotuner, *args, **kwargs)
            source = _source(autotuner)
            if source:
                found = [(configuration(launcher.config), float(ms)) for launcher, ms in times.items()]
                self._found.append((source, found))
            return times

        return benchmark_all_configs


def _source(autotuner: Any) -> str | None:
    """The text of the file that a kernel was loaded from."""
    name = getattr(autotuner, "filename", None)
    code = getattr(getattr(getattr(autotuner, "fn", None), "fn", None), "__code__", None)
    for file in (getattr(code, "co_filename", None), name):
        if file and Path(file).is_file():
            return Path(file).read_text()
    return None


def configuration(config: Any) -> dict:
    """Block sizes, num_warps and num_stages of a `triton.Config`."""
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def proposed(sources: dict[str, tuple[str, str]], kernels: TritonKernels) -> dict[str, dict]:
    """What the heuristics propose for kernels.

    Args:
        sources: by the kernel's name in the wrapper, its own name in its text, and that text.
        kernels: what loads them, entered.

    Returns:
        By name `heuristic`, `size_hints`, `reduction_hint` and `configurations`, in the heuristic's order; without the
        kernels that no heuristic of Inductor's decorates, or that cannot be loaded.
    """
    found = {}
    for name, (function, text) in sources.items():
        decorator, hint = DECORATOR.search(text), HINT.search(text)
        with suppress(Exception):  # of many kinds: the text is run
            kernel = kernels.load(name, function, text) if decorator else None
            if decorator and kernel:
                found[name] = {
                    "heuristic": decorator[1],
                    "size_hints": dict(getattr(kernel, "size_hints", None) or {}),
                    "reduction_hint": hint[1] if hint else None,
                    "configurations": [configuration(config) for config in kernel.configs],
                }
    return found
