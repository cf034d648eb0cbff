"""Time what a compiled call does: its graphs' wrappers, what they call, and the compile itself from cold caches."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest import mock

import torch

from minicompile.torch_private.names import owner
from minikernel.measure.caches import CACHE_VARIABLES, own_caches

# Inductor tries once for each cache folder whether vector code compiles and runs; the answer does not depend on the
# model, and its seconds would be counted to whichever compile comes first.
COMPILE_OPTIONS = {"cpp.vec_isa_ok": True}
# Each C++ kernel then tells torch's profiler when it begins and ends, from within.
KERNEL_EVENTS = {"cpp.enable_kernel_profile": True}
# What a wrapper calls that it did not generate: extern_kernels.*, torch.ops.*, and aten.* for random numbers.
LIBRARIES = ("extern_kernels", "torch", "aten")


def caches_in(folder: Path) -> AbstractContextManager:
    """A block that keeps its compile caches in a folder, which is left as the block fills it."""
    return mock.patch.dict(os.environ, {name: str(folder / name.partition("_")[0].lower()) for name in CACHE_VARIABLES})


@contextmanager
def fresh_caches(folder: Path | None = None) -> Iterator[None]:
    """A block whose first compile is a cold one: nothing kept in memory, vector code not probed.

    Its caches on disk lie in an empty `folder`, and stay there; without one, in a temporary folder of its own.
    """
    owner("compile_fx")  # imports it, else the process' first compile would
    # A torch built for CUDA brings a ptxas, which its compile workers take, while this process would take Triton's. As
    # its version is part of a compiled kernel's name, nothing that the workers compile would then be found, and each of
    # max-autotune's choices would be compiled once more, one after the other. So it is with Triton up to 3.8 below
    # compute capability 10.0; from there on, and from 9.0 on in 3.9, both take Triton's `ptxas-blackwell` anyway.
    owner("ptxas")._set_triton_ptxas_path()
    with caches_in(folder) if folder else own_caches(), inductor_options(COMPILE_OPTIONS):
        torch.compiler.reset()
        owner("clear_caches").clear_caches()
        try:
            yield
        finally:
            torch.compiler.reset()


def inductor_options(options: dict):
    """A context in which Inductor compiles with `options`."""
    return owner("config").patch(options)


@contextmanager
def keeping_graphs() -> Iterator[list]:
    """Collects the callables of graphs compiled in the block: each is given tensors and runs the wrapper alone."""
    kind, graphs = owner("post_compile"), []
    finish = kind.post_compile

    def keeping(graph, *arguments, **keywords) -> None:
        finish(graph, *arguments, **keywords)
        graphs.append(graph)

    with mock.patch.object(kind, "post_compile", keeping):
        yield graphs


def wrapper_globals(graphs: list) -> list[dict]:
    """The names that each graph's generated wrapper looks its functions up by, its module's `vars`."""
    return [type(graph.compiled_fn_runner).call.__globals__ for graph in graphs]


class Stopwatch:
    """Wraps functions and keeps how long each call of theirs took, in microseconds, in order."""

    def __init__(self) -> None:
        self.samples_us: list[float] = []

    def around(self, function: Callable) -> Callable:
        def timed(*arguments, **keywords):
            began = time.perf_counter_ns()
            result = function(*arguments, **keywords)
            self.samples_us.append((time.perf_counter_ns() - began) / 1e3)
            return result

        return timed


@contextmanager
def timed_graphs(graphs: list, stopwatch: Stopwatch) -> Iterator[None]:
    """While in the block, `stopwatch` times the graphs' wrappers and all that they call."""
    before = [graph.current_callable for graph in graphs]
    for graph in graphs:
        graph.current_callable = stopwatch.around(graph.current_callable)
    try:
        yield
    finally:
        for graph, function in zip(graphs, before, strict=True):
            graph.current_callable = function


@contextmanager
def timed_libraries(graphs: list, stopwatch: Stopwatch) -> Iterator[None]:
    """While in the block, `stopwatch` times what the graphs' wrappers call that they did not generate, in order."""

    def timed(function: Callable, arguments: tuple, keywords: dict):
        began = time.perf_counter_ns()
        result = function(*arguments, **keywords)
        stopwatch.samples_us.append((time.perf_counter_ns() - began) / 1e3)
        return result

    with _calling_through(timed, graphs):
        yield


@contextmanager
def nothing_called(graphs: list, kernels: Iterable[str], results: dict) -> Iterator[None]:
    """While in the block, the graphs' wrappers run without what they call: what is left is their own work.

    Args:
        kernels: names of the generated kernels.
        results: what library calls gave, by function and shapes, kept from block to block; the wrapper goes on with it.
    """

    def remembered(function: Callable, arguments: tuple, keywords: dict):
        if "out" in keywords:  # the wrapper has made its result, and does not ask for it
            return None
        key = (function, *(value.shape for value in arguments if isinstance(value, torch.Tensor)))
        if key not in results:
            results[key] = function(*arguments, **keywords)
        return results[key]

    def nothing(*_arguments) -> None:
        return None

    wrappers = wrapper_globals(graphs)
    before = [{name: wrapper[name] for name in kernels if name in wrapper} for wrapper in wrappers]
    with _calling_through(remembered, graphs):
        for wrapper, names in zip(wrappers, before, strict=True):
            wrapper.update(dict.fromkeys(names, nothing))
        try:
            yield
        finally:
            for wrapper, names in zip(wrappers, before, strict=True):
                wrapper.update(names)


@contextmanager
def _calling_through(handler: Callable, graphs: list) -> Iterator[None]:
    """While in the block, `handler(function, arguments, keywords)` makes the wrappers' library calls."""
    wrappers = wrapper_globals(graphs)
    before = [{name: wrapper[name] for name in LIBRARIES} for wrapper in wrappers]
    for wrapper in wrappers:
        wrapper["extern_kernels"] = _Functions(wrapper["extern_kernels"], handler)
        wrapper["torch"] = _Torch(handler)
        wrapper["aten"] = _Functions(wrapper["aten"], handler)
    try:
        yield
    finally:
        for wrapper, names in zip(wrappers, before, strict=True):
            wrapper.update(names)


class _Functions:
    """A namespace whose functions, however deep, are called by a handler."""

    def __init__(self, target: object, handler: Callable) -> None:
        self._target, self._handler = target, handler

    def __getattr__(self, name: str) -> "_Functions":
        found = _Functions(getattr(self._target, name), self._handler)
        setattr(self, name, found)  # the next call finds it without coming here
        return found

    def __call__(self, *arguments, **keywords):
        return self._handler(self._target, arguments, keywords)


class _Torch:
    """torch, with its operators called by a handler."""

    def __init__(self, handler: Callable) -> None:
        self.ops = _Functions(torch.ops, handler)

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)
