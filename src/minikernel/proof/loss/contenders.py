"""Everybody who computes `cross_entropy(linear(h, weight), target)`: torch's ways, the peers, and the lab's own.

A contender is called `function(h, weight, target, **options)` and returns the loss. Peers are called as their users
call them, each with its own defaults.
"""

import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minikernel.reasons import Refusal

EAGER, COMPILE, LAB = "eager", "compile", "lab"
UNKNOWN_VERSION = "unknown"
# every option of the lab's own operator; one that is not given has its default
OPTIONS = frozenset({"bias", "class_weight", "reduction", "ignore_index", "label_smoothing", "z_loss", "softcap"})
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Contender:
    """One of those who compute the loss.

    Attributes:
        name: as artefacts and pages have it.
        distribution, module: of the package that it comes in.
        load: what returns its function; it may fail in any way.
        options: those that it takes.
        on_cpu: whether it can run on a CPU.
    """

    name: str
    distribution: str
    module: str
    load: Callable[[], Function]
    options: frozenset[str]
    on_cpu: bool = False

    @property
    def version(self) -> str | None:
        """The version of its package; None where that is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return UNKNOWN_VERSION if importlib.util.find_spec(self.module) else None

    def refuse_unless_able(self, device: str, options: dict[str, Any]) -> None:
        """Say at once what it cannot do.

        Raises:
            Refusal: it runs on a GPU only, or does not take one of the options.
        """
        if not self.on_cpu and torch.device(device).type == "cpu":
            raise Refusal({"code": "needs_gpu"})
        lacking = sorted(set(options) - self.options)
        if lacking:
            raise Refusal({"code": "no_option", "option": lacking[0]})


@cache
def function_of(name: str) -> Function:
    """A contender's function, loaded once."""
    return CONTENDERS[name].load()


def eager_loss(
    h: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    class_weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
) -> Tensor:
    """The loss as one writes it in torch: the logits, then their cross-entropy, in the dtype of `h`."""
    logits = F.linear(h, weight, bias)
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    settings: dict[str, Any] = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    loss = F.cross_entropy(logits, target, class_weight, reduction=reduction, **settings)
    if not z_loss:
        return loss
    counted = target != ignore_index
    squares = torch.where(counted, torch.logsumexp(logits.float(), -1).square(), 0.0)
    if reduction == "mean":
        return loss + z_loss * squares.sum() / counted.sum()
    return loss + z_loss * (squares.sum() if reduction == "sum" else squares)


class Compiled:
    """`eager_loss` compiled, each kind of call by itself.

    Attributes:
        seconds: left for compiles; a kind of call that comes later is refused. None: there is no limit.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.made: dict[tuple, Function] = {}

    def __call__(self, h: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
        tensors = tuple((t.shape, t.stride(), t.dtype, t.requires_grad) for t in (h, weight))
        key = (
            *tensors,
            torch.is_grad_enabled(),
            *((k, None if isinstance(it, Tensor) else it) for k, it in options.items()),
        )
        if key in self.made:
            return self.made[key](h, weight, target, **options)
        if self.seconds is not None and self.seconds <= 0:
            raise Refusal({"code": "compile_time_used_up"})
        # Dynamo keeps what it compiled with a function's code and gives up beyond some variants: each kind has its own.
        own = FunctionType(eager_loss.__code__.replace(), globals())
        own.__kwdefaults__ = eager_loss.__kwdefaults__
        self.made[key] = torch.compile(own, fullgraph=True, dynamic=False)
        began = time.monotonic()
        try:
            return self.made[key](h, weight, target, **options)
        finally:
            if self.seconds is not None:
                self.seconds -= time.monotonic() - began


def _torch() -> Function:
    function, chunking = getattr(F, "linear_cross_entropy", None), getattr(torch.nn, "LinearCrossEntropyOptions", None)
    if function is None or chunking is None:  # torch 2.13 brought both
        raise Refusal({"code": "not_in_version", "version": torch.__version__.split("+")[0]})

    def call(h: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
        names = {"bias": "linear_bias", "class_weight": "weight"}
        # without options it computes as eager does
        return function(
            h, weight, target, **{names.get(key, key): it for key, it in options.items()}, options=chunking()
        )

    return call


def _liger() -> Function:
    return _as_liger(importlib.import_module("liger_kernel.transformers.functional").liger_fused_linear_cross_entropy)


def _liger_sm90() -> Function:
    # The switch that chooses it is one of the whole process, so it is called under its own name. Where its kernel
    # cannot run, another of Liger's would in its place, and be timed under this name: so it is told to fail instead.
    os.environ["LIGER_KERNEL_STRICT"] = "1"
    module = importlib.import_module("liger_kernel.ops.backends._cutedsl.fused_linear_cross_entropy")
    return _as_liger(module.fused_linear_cross_entropy_cutedsl)


def _as_liger(function: Function) -> Function:
    def call(h: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
        given = {
            "bias": options.get("bias"),
            "ce_weight": options.get("class_weight"),
            "ignore_index": options.get("ignore_index", -100),
            "lse_square_scale": options.get("z_loss", 0.0),
            "label_smoothing": options.get("label_smoothing", 0.0),
            "reduction": options.get("reduction", "mean"),
            "softcap": options.get("softcap"),
        }
        found: Any = function(h, weight, target, **given)
        return found[0] if isinstance(found, tuple) else found

    return call


def _quack() -> Function:
    chunked = importlib.import_module("quack.linear_cross_entropy").chunked_linear_cross_entropy
    return lambda h, weight, target, **options: chunked(h, weight, target, **options)


def _quack_scaled() -> Function:
    # The path whose products store scaled exponentials; by default quack takes it where it can. Where it cannot, and in
    # a release without the switch, the call fails by itself.
    return partial(_quack(), use_scaled_exp=True)


def _cce() -> Function:
    function = importlib.import_module("cut_cross_entropy").linear_cross_entropy
    return lambda h, weight, target, **options: function(h, weight, target, **options)


def _lab() -> Function:
    return importlib.import_module("minikernel.ops.linear_cross_entropy.operator").linear_cross_entropy


TORCH = OPTIONS - {"z_loss", "softcap"}
QUACK = frozenset({"reduction", "ignore_index"})
CONTENDERS = {
    one.name: one
    for one in (
        Contender(EAGER, "torch", "torch", lambda: eager_loss, OPTIONS, on_cpu=True),
        Contender(COMPILE, "torch", "torch", Compiled, OPTIONS, on_cpu=True),
        Contender("torch", "torch", "torch", _torch, TORCH, on_cpu=True),
        Contender("liger", "liger-kernel", "liger_kernel", _liger, OPTIONS),
        Contender("liger-sm90", "liger-kernel", "liger_kernel", _liger_sm90, OPTIONS),
        Contender("quack", "quack-kernels", "quack", _quack, QUACK),
        Contender("quack-scaled", "quack-kernels", "quack", _quack_scaled, QUACK),
        Contender("cce", "cut-cross-entropy", "cut_cross_entropy", _cce, QUACK | {"bias", "softcap"}),
        Contender(LAB, "minigpt-lab", "minikernel", _lab, OPTIONS, on_cpu=True),
    )
}


def versions() -> dict[str, str | None]:
    """Contender -> its version; None where it is not installed."""
    return {name: contender.version for name, contender in CONTENDERS.items()}
