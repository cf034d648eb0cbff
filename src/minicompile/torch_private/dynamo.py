"""What the safety net asks of Dynamo and Inductor beyond torch's public interface.

The names are those of `names.NAMES`; where one is missing, `owner` says so in a sentence.
"""

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from minicompile.torch_private.names import lookup, owner

CACHE_LIMIT_LOGGER = "torch._dynamo.convert_frame"
CACHE_LIMIT = re.compile(r"hit config\.(\w+) \((\d+)\)\s+function: (.+?)\n\s+last reason: (.*)")


def inner_backend(backend: str | Callable, mode: str, options: dict | None, dynamic: bool | None) -> Callable:
    """The callable (graph module, example inputs) -> callable that `torch.compile` would use.

    Raises:
        RuntimeError: Inductor does not know an option.
        TorchDynamoException: no backend has that name.
    """
    if backend == "inductor":
        merged = {**owner("mode_options").list_mode_options(mode, dynamic), **(options or {})}
        return owner("inductor_wrapper")._TorchCompileInductorWrapper(None, merged, dynamic)
    return owner("backend_wrapper")._TorchCompileWrapper(backend, None, options, dynamic)


def backend_of_aot(forward: Callable, backward: Callable) -> Callable:
    """A backend out of two functions (graph module, example inputs) -> callable, one for each of AOTAutograd's graphs.

    The callable of the backward pass takes a list of its arguments and has the attribute `_boxed_call`.
    """
    return owner("aot_backend").aot_autograd(fw_compiler=forward, bw_compiler=backward)


def torch_compile(function: Callable, isolated: bool, **arguments: Any) -> Callable:
    """`torch.compile`; isolated, with a cache of graphs of its own where torch can (2.13 on): models of one class
    then neither share a limit on recompiles nor recompile for one another."""
    if isolated and "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        arguments["isolate_recompiles"] = True
    return torch.compile(function, **arguments)


def passes_over(function: Callable) -> bool:
    """Whether Dynamo compiles nothing of a function's own frame, as with the forwards of torch.nn's modules."""
    return bool(owner("skipped_frames").check(function))


def compile_errors() -> tuple[type[Exception], ...]:
    """The exceptions with which a compile fails at a call, as opposed to those of the model itself."""
    # Inductor's own errors are among the first; the limit on recompiles under fullgraph is not.
    return (owner("compile_error").TorchDynamoException, owner("recompile_limit").FailOnRecompileLimitHit)


def fallback_random(value: bool):
    """A context in which compiled code draws the random numbers that eager draws, in the same order."""
    return owner("fallback_random").patch(fallback_random=value)


def draws_as_eager() -> bool:
    """Whether compiled code draws its random numbers as eager does."""
    return owner("fallback_random").fallback_random


def failing_backward_early():
    """A context in which a backward graph compiles with its forward graph, so that both fail at the call."""
    return owner("functorch_config").patch(force_non_lazy_backward_lowering=True)


def current_compile() -> tuple[int, str] | None:
    """(which frame, id of this compile of it) while a backend runs; None outside, or where torch does not say."""
    compile_id = owner("compile_context").current_compile_id()
    return None if compile_id is None else (compile_id.frame_id, str(compile_id))


def current_recompile_reason() -> str | None:
    """The guard that failed, while a backend runs for a recompile; None for a first compile or where unknown."""
    metrics = getattr(owner("metrics_context").get_metrics_context(), "_metrics", {})
    reason = metrics.get("recompile_reason")
    return None if reason is None else " ".join(reason.split("\n")[0].split())


@dataclass(frozen=True)
class FrameMetrics:
    """What Dynamo records of one compile of one frame."""

    compile_id: str  # given out anew after `torch.compiler.reset()`
    began: int | None  # microseconds
    function: str  # 'forward' (file:line), as Dynamo's warnings write it
    guards: int
    failure: str | None


def frame_metrics() -> list[FrameMetrics]:
    """The last compiles of the process, oldest first (torch keeps 64); empty where torch keeps none."""
    found = []
    for metrics in owner("compile_metrics").get_compilation_metrics():
        if metrics.co_name is None:  # a backward graph's
            continue
        function = f"'{metrics.co_name}' ({metrics.co_filename}:{metrics.co_firstlineno})"
        failure = " ".join(metrics.fail_reason.split("\n")[0].split()) if metrics.fail_type else None
        found.append(
            FrameMetrics(metrics.compile_id, metrics.start_time_us, function, metrics.guard_count or 0, failure)
        )
    return found


def break_of_graph(graph_module: torch.fx.GraphModule) -> str | None:
    """Why a graph ends where it does, with the line of the user's; None where it is the frame's end."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    return _describe_break(reason) if reason is not None and reason.graph_break else None


def breaks_so_far() -> int:
    """How many graph breaks the process has had; 0 where torch keeps no list."""
    return len(_break_list())


def breaks_since(count: int) -> list[str]:
    """The graph breaks after the first `count`, described."""
    return [_describe_break(reason) for reason in _break_list()[count:]]


def _break_list() -> list:
    return lookup("break_list") or []


def _describe_break(reason) -> str:
    """The first line, what Dynamo explains, and the innermost line of the user's."""
    lines = [line.strip() for line in reason.reason.splitlines() if line.strip()]
    explanation = next((line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation")), "")
    text = f"{lines[0]}: {explanation}" if explanation else lines[0]
    text = re.sub(r" at 0x[0-9a-f]+", "", text)  # an address would make two breaks of one
    stack = list(reason.user_stack or ())
    return f"{text} [{stack[-1].filename}:{stack[-1].lineno}]" if stack else text


@dataclass(frozen=True)
class CacheLimit:
    """A frame that Dynamo compiles no more: its `function`, the `limit` that it reached and that limit's `value`, and
    the `guard` that failed last."""

    function: str
    limit: str
    value: int
    guard: str

    def __str__(self) -> str:
        return f"{self.function} reached {self.limit} = {self.value} and compiles no more; last: {self.guard}"


def listen_for_cache_limit(listener: Callable[[str, CacheLimit], None]) -> None:
    """Have the listener told of Dynamo's one warning, silenced or not, that it will compile a frame no more: (compile
    id, `CacheLimit`), the id of the graph whose guard failed last, which tells one model from another of its class."""
    logger = logging.getLogger(CACHE_LIMIT_LOGGER)
    warn = logger.warning

    def warning(message: object, *given: object, **more: Any) -> None:
        match = CACHE_LIMIT.search(str(message) % given if given else str(message))
        if match:
            limit, value, function, reason = match.groups()
            compile_id, _, guard = reason.partition(": ")
            listener(compile_id, CacheLimit(function, limit, int(value), guard))
        warn(message, *given, **{"stacklevel": 2, **more})

    setattr(logger, "warning", warning)  # noqa: B010


def is_ddp(model: torch.nn.Module) -> bool:
    return _is_instance(model, "torch.nn.parallel.distributed", "DistributedDataParallel")


def is_fsdp(module: torch.nn.Module) -> bool:
    """Whether FSDP2's `fully_shard` manages the module."""
    return _is_instance(module, "torch.distributed.fsdp", "FSDPModule")


def _is_instance(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # a module that was never imported made no instance
    return kind is not None and isinstance(value, kind)


def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Tell Dynamo that a tensor's size along `dim` varies from call to call."""
    owner("mark_dynamic").mark_dynamic(tensor, dim)


def peak_cpu_bytes(profiler: torch.profiler.profile) -> int | None:
    """The most bytes that a profiled block (`profile_memory=True`) held at a time beyond those at its start; None
    where the profiler tells of no allocation."""
    inner: Any = profiler.profiler
    events = inner.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak if changes else None


def forget_compile_threads() -> None:
    """In a forked copy: let go of the threads that Inductor compiled with, of which the copy has none."""
    if "torch._inductor.async_compile" in sys.modules:
        owner("compile_pool").pool.cache_clear()


@contextmanager
def without_cpp_compiler() -> Iterator[None]:
    """Inductor as on a machine without a C++ compiler, and without anything compiled before."""
    no_compiler = owner("config").patch({"cpp.cxx": (None, "/nonexistent/c++")})
    with owner("fresh_cache").fresh_cache(), no_compiler:
        yield


def mode_options(mode: str) -> dict[str, object]:
    """The Inductor options that a mode stands for."""
    return owner("mode_options").list_mode_options(mode)
