"""The ways in which a model's compile is tried: settings that must work, and faults that must leave the model alone.

`cases()` crosses modes, dynamic shapes, backends, failure policies, buckets and faults; `check` tries one. The test
files that `scripts/gen_compile_tests.py` writes for a model of yours, and the lab's own matrix, are made of both.
"""

import inspect
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn

from minicompile.models import named
from minicompile.safe.compile_config import FAIL_POLICIES, CompileConfig
from minicompile.safe.compile_record import CompileReport, compile_report
from minicompile.safe.failures import TimeLimitExceeded
from minicompile.safe.safe_compile import maybe_compile, uncompile
from minicompile.safe.shape_stabilizer import ShapeStabilizer
from minicompile.safe.smoketest.apart import why_not
from minicompile.safe.smoketest.rewind import rewinding
from minicompile.state.batches import split_batch, tensors_of
from minicompile.torch_private.dynamo import backend_of_aot, without_cpp_compiler
from minilab import LabError

MODES = ("default", "reduce-overhead", "max-autotune")
DYNAMIC = (None, False, True)
# Spares Inductor's probe of the vector unit, and makes its code the same on every x86 machine of the last decade.
FAST = {"cpp.vec_isa_ok": True, "cpp.simdlen": 256}
BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition")  # those that compile quickly
BUCKETS = ((4, 8), (8, 16), (4, 8, 16))
logger = logging.getLogger(__name__)


def refusing(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """A backend that compiles nothing."""
    raise NotImplementedError("this backend compiles nothing")


def lying(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """A backend whose outputs are one per cent off."""

    def run(*arguments: Tensor) -> tuple:
        outputs = graph_module(*arguments)
        return tuple(x * 1.01 if isinstance(x, Tensor) and x.is_floating_point() else x for x in outputs)

    return run


def _half(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    def run(arguments: list) -> list:
        return [None if value is None else value / 2 for value in graph_module(*arguments)]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _keep(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    return graph_module


def hanging(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """A backend that does not come back."""
    time.sleep(600)
    return graph_module


def crashing(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """A backend that ends its process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return graph_module


@dataclass(frozen=True)
class Fault:
    """A backend, or a machine, that goes wrong: what it is called in a sentence, and the stages that may name it."""

    words: str
    backend: str | Callable
    stages: tuple[str, ...]
    trains: bool = False  # shows in a backward pass alone
    apart: bool = False  # would end, or stop, a process that it shares with the model
    seconds: float | None = 60.0  # the limit of its compile
    machine: Callable[[], AbstractContextManager] | None = None  # makes this machine one that goes wrong


FAULTS = {
    "refuses": Fault("a backend that refuses", refusing, ("forward",)),
    "lies": Fault("a backend that is one per cent off", lying, ("numerics",)),
    "halves gradients": Fault(
        "a backend that halves gradients",
        backend_of_aot(_keep, _half),
        ("numerics",),
        trains=True,
    ),
    "refuses backward": Fault(
        "a backend that refuses the backward pass",
        backend_of_aot(_keep, refusing),
        ("forward", "backward"),
        trains=True,
    ),
    "hangs": Fault("a backend that hangs", hanging, ("time_limit",), seconds=1.0),
    "crashes": Fault("a backend that ends its process", crashing, ("forward",), apart=True),
    "no compiler": Fault("a machine without a C++ compiler", "inductor", ("forward",), machine=without_cpp_compiler),
}


@dataclass(frozen=True)
class Case:
    """One way to compile a model.

    Attributes:
        backend: a name that torch knows; not used where there is a fault.
        mode, dynamic, policy: as `CompileConfig` has them.
        fault: a key of `FAULTS`, whose backend compiles instead; None expects the compile to work.
        buckets: lengths that sequences are padded to; each must take one graph, and none be compiled twice.
        steps: of the smoketest.
    """

    backend: str = "inductor"
    mode: str = "default"
    dynamic: bool | None = None
    policy: str = "fallback_eager"
    fault: str | None = None
    buckets: tuple[int, ...] | None = None
    steps: int = 3

    def __str__(self) -> str:
        shapes = {None: "automatic shapes", False: "fixed shapes", True: "dynamic shapes"}[self.dynamic]
        if self.buckets:
            return f"{len(self.buckets)} buckets up to {self.buckets[-1]} take one graph each with {self.backend}"
        if self.fault:
            how = "is survived" if self.policy == "fallback_eager" else "is raised"
            return f"{FAULTS[self.fault].words} {how}, mode {self.mode}, {shapes}"
        rest = "" if self.policy == "fallback_eager" else ", failures raised"
        proven = "" if self.steps == 3 else f", proven by {self.steps} step{'s' * (self.steps > 1)}"
        return f"it compiles with {self.backend}, mode {self.mode}, {shapes}{rest}{proven}"


def cases(sequences: bool = False, trains: bool = True) -> Iterator[Case]:
    """Yield every case, the quick ones first.

    Args:
        sequences: whether the model takes token ids (B, T), for the buckets.
        trains: whether it has a backward pass, for the faults of that.
    """
    for backend, dynamic, policy in product(BACKENDS, DYNAMIC, FAIL_POLICIES):
        yield Case(backend, "default", dynamic, policy)
    for backend, steps in product(BACKENDS, (1, 2)):
        yield Case(backend, steps=steps)
    for fault, mode, dynamic, policy in product(FAULTS, MODES, DYNAMIC, FAIL_POLICIES):
        applies = (trains or not FAULTS[fault].trains) and not FAULTS[fault].machine
        if applies and (fault != "hangs" or dynamic is None):
            yield Case("", mode, dynamic, policy, fault)
    if sequences:
        for buckets, backend in product(BUCKETS, BACKENDS):
            yield Case(backend, dynamic=False, buckets=buckets)
    for mode, dynamic, policy in product(MODES, DYNAMIC, FAIL_POLICIES):
        yield Case("inductor", mode, dynamic, policy)


def cases_of(model: nn.Module, batch: Any) -> list[Case]:
    """List the cases that a model can be tried in."""
    trains = model.training and any(parameter.requires_grad for parameter in model.parameters())
    return list(cases(is_sequences(batch), trains))


def is_sequences(batch: Any) -> bool:
    """Say whether a batch is one tensor of token ids, (B, T)."""
    return isinstance(batch, Tensor) and batch.dtype in (torch.int32, torch.int64) and batch.ndim == 2


def fingerprint(model: nn.Module) -> dict:
    """Copy everything of a model that a compile must leave as it was."""

    def bits(tensor: Tensor | None) -> list | None:
        return None if tensor is None else tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()

    return {
        "parameters": {name: (bits(p), bits(p.grad), p.requires_grad) for name, p in model.named_parameters()},
        "buffers": {name: bits(buffer) for name, buffer in model.named_buffers()},
        "modules": {name: (module.training, sorted(vars(module))) for name, module in model.named_modules()},
        "random": bits(torch.get_rng_state()),
    }


def check(
    make: Callable[[], tuple[nn.Module, Any]],
    case: Case,
    loss_fn: Callable | None = None,
    logger: logging.Logger = logger,
) -> CompileReport:
    """Try one case on a new model; returns what became of its compile.

    Args:
        make: returns the model and a batch of it, as `maybe_compile` takes them.
        loss_fn, logger: as `maybe_compile` takes them.

    Raises:
        AssertionError: the compile does not do what the case asks for.
    """
    torch.compiler.reset()
    torch.manual_seed(0)
    model, batch = make()
    before = fingerprint(model)
    way = _check_buckets if case.buckets else _check_fault if case.fault else _check_compiled
    report = way(model, batch, case, partial(maybe_compile, model, _config(case), logger, loss_fn=loss_fn))
    uncompile(model)
    torch.compiler.reset()
    after = fingerprint(model)
    assert {key for key in before if before[key] != after[key]} <= ({"buffers", "random"} if case.buckets else set())
    return report


def _config(case: Case) -> CompileConfig:
    fault = FAULTS[case.fault] if case.fault else None
    return CompileConfig(
        enabled=True,
        backend=fault.backend if fault else case.backend,
        mode=case.mode,
        dynamic=case.dynamic,
        fail_policy=case.policy,
        smoketest_steps=case.steps,
        options=FAST if case.backend == "inductor" else None,
        time_limit_seconds=fault.seconds if fault else 1800.0,
    )


def _check_compiled(model: nn.Module, batch: Any, case: Case, compiling: Callable) -> CompileReport:
    compiling(batch)
    report = compile_report(model)
    assert report.compiled, f"{report.stage}: {report.reason}"
    assert report.graphs >= 1
    assert not report.recompiles, report.recompiles
    assert {"output"} <= set(report.differences), "nothing was compared"
    return report


def _check_fault(model: nn.Module, batch: Any, case: Case, compiling: Callable) -> CompileReport:
    fault = FAULTS[case.fault or ""]
    shared = why_not() if fault.apart else None
    if shared is not None:
        raise SkipTest(shared)
    raised: BaseException | None = None
    expected = _outputs(model, batch)
    try:
        with fault.machine() if fault.machine else nullcontext():
            compiling(batch)
    except (Exception, TimeLimitExceeded) as error:
        raised = error
    report = compile_report(model)
    assert not report.compiled, "the fault went unnoticed"
    assert report.stage in fault.stages, f"{report.stage}: {report.reason}"
    assert (raised is not None) == (case.policy == "raise"), raised
    outputs = _outputs(model, batch)
    assert outputs, "the model that came back returns no tensor"
    assert outputs.keys() == expected.keys()
    for name, output in outputs.items():  # not bit by bit: some of a GPU's own sums are in no order
        assert torch.allclose(output, expected[name], rtol=1e-3, equal_nan=True), f"{name} is another one than before"
    return report


def _outputs(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """The tensors that a call returns; it leaves the model as it was."""
    arguments, keywords, _ = split_batch(model, batch)
    with rewinding(model):  # a call may train buffers and draw random numbers
        return dict(tensors_of(model(*arguments, **keywords)))


def _check_buckets(model: nn.Module, batch: Any, case: Case, compiling: Callable) -> CompileReport:
    buckets = case.buckets or ()
    stabilizer = ShapeStabilizer(buckets)
    compiling(stabilizer.bucket_batch(batch[:, : buckets[0]]))
    longest = torch.cat([batch] * (buckets[-1] // batch.shape[1] + 1), dim=1)
    for _ in range(2):
        for length in (1, *buckets):
            model(stabilizer.bucket_batch(longest[:, :length].contiguous()))
        graphs = compile_report(model).graphs
        assert graphs == len(buckets), f"{len(buckets)} buckets took {graphs} graphs"
    return compile_report(model)


def model_and_batch(name: str) -> tuple[nn.Module, Any]:
    """Make the model of a configuration, or of FILE.py:FACTORY, and a batch as `maybe_compile` takes it.

    Raises:
        LabError: there is no such model, it is no module, or its inputs do not fit it.
    """
    made = named(name)
    if not isinstance(made.module, nn.Module):
        raise LabError(f"model {name} is a function, and maybe_compile compiles modules; wrap it in an nn.Module.")
    inputs = made.inputs if isinstance(made.inputs, tuple) else (made.inputs,)
    if not made.kwargs:
        return made.module, inputs[0] if len(inputs) == 1 else inputs
    try:
        return made.module, dict(inspect.signature(made.module.forward).bind(*inputs, **made.kwargs).arguments)
    except TypeError as error:
        raise LabError(
            f"model {name}: its inputs do not fit its forward ({error}); mend what FACTORY returns."
        ) from error
