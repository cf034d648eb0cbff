"""How operations are taken apart on a GPU, though the trace that does it is on the CPU.

Many a decomposition of Inductor's asks on which device a tensor is: a layer normalisation keeps statistics in float32
on a GPU and in the input's dtype on the CPU, and an outer product is left to the library on the CPU alone. PyTorch's
own C++ asks as well: on a GPU an RMS normalisation and the cell of an LSTM or a GRU are one operation each.
"""

import contextlib
import dis
import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from minicompile.torch_private.names import owner

OTHER = {"cpu": "cuda", "cuda": "cpu"}
# What follows a name that is compared, alone or as one of several of which some are looked up: ("cpu", other())
COMPARES = re.compile(r"(COMPARE_OP|((LOAD_\w+ )*BUILD_(TUPLE|LIST|SET) )?CONTAINS_OP)\b")
CALLS = ("CALL", "PRECALL")  # torch.device("cpu") is compared too
COMMON = "torch._prims_common"  # decompositions share it
ON_THE_CPU = "tensor_split"  # the beginning of those whose indices have to be there, and are


def named_arguments(operation: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """What an operation that a GPU has as one is given, by the names of its schema."""
    return dict(zip([one.name for one in operation._schema.arguments], args, strict=False)) | kwargs


def table() -> dict[Any, Callable]:
    """Inductor's decompositions, and those of operations that it leaves whole on the CPU."""
    aten = torch.ops.aten

    def bernoulli(tensor, p=0.5, *, generator=None):
        return torch.rand_like(tensor, dtype=torch.float32) < p

    def bernoulli_(tensor, p=0.5, *, generator=None):
        return tensor.copy_(bernoulli(tensor, p))

    taken = owner("decompositions").select_decomp_table()
    whole: dict[Any, Callable] = {
        aten.bernoulli.p: bernoulli,
        aten.bernoulli_.float: bernoulli_,
        aten.bernoulli_.Tensor: bernoulli_,
    }
    return {**taken, **{operation: how for operation, how in whole.items() if operation in taken}}


@contextlib.contextmanager
def composites() -> Iterator[None]:
    """While this is entered, C++ takes those operations of tensors on the CPU apart that it would of ones on a GPU."""
    with owner("scoped_library")._scoped_library("aten", "IMPL") as library:
        for operation, function in COMPOSITES.items():
            library.impl(operation, function, "AutogradCPU")
        for operation, function in WITHOUT_META.items():
            library.impl(operation, function, "Meta")
        library.impl("_fused_rms_norm", _not_here, "CPU")  # C++ has a gradient of it where there is a kernel of it
        _forget_dispatch()
        yield
    _forget_dispatch()


def _forget_dispatch() -> None:
    """Python's dispatcher keeps what it once found."""
    for name in (*COMPOSITES, *WITHOUT_META, "_fused_rms_norm"):
        getattr(torch.ops.aten, name).default._dispatch_cache.clear()


def _lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    if b_ih is None:  # torch's meta function of the fused cell asks for biases
        return torch.ops.aten.lstm_cell.default.decompose(input, hx, w_ih, w_hh)
    cell = torch.ops.aten._thnn_fused_lstm_cell
    return cell(input @ w_ih.t(), hx[0] @ w_hh.t(), hx[1], b_ih, b_hh)[:2]


def _gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return torch.ops.aten._thnn_fused_gru_cell(input @ w_ih.t(), hx @ w_hh.t(), hx, b_ih, b_hh)[0]


def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    batch, channels, *rest = input.shape
    within = functools.reduce(operator.mul, rest, 1)
    norm = torch.ops.aten.native_group_norm
    return norm(input.contiguous(), weight, bias, batch, channels, within, num_groups, eps)[0]


def _gru_meta(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    return torch.empty_like(hx), hx.new_empty(hx.shape[0], 5 * hx.shape[1])


def _gru_backward_meta(grad_hy, workspace, has_bias):
    batch, hidden = grad_hy.shape
    gates = [workspace.new_empty(batch, 3 * hidden) for _ in range(2)]
    biases = [workspace.new_empty(3 * hidden) if has_bias else None for _ in range(2)]
    return *gates, torch.empty_like(grad_hy, memory_format=torch.contiguous_format), *biases


def _not_here(*_args):
    raise NotImplementedError("this stands for a kernel of a GPU that is not here")


COMPOSITES: dict[str, Callable] = {"lstm_cell": _lstm_cell, "gru_cell": _gru_cell, "group_norm": _group_norm}
WITHOUT_META: dict[str, Callable] = {
    "_thnn_fused_gru_cell": _gru_meta,
    "_thnn_fused_gru_cell_backward": _gru_backward_meta,
}


@contextlib.contextmanager
def traced_on(device: str) -> Iterator[None]:
    """While this is entered, decompositions, and passes over what they made, take a tensor on `cpu` for one on a GPU.

    With `cuda` a tensor is where it is.
    """
    before = {function: function.__code__ for function in _asking()}
    with contextlib.ExitStack() as stack:
        for function, codes in _asking().items():
            function.__code__ = codes[device]
            stack.callback(setattr, function, "__code__", before[function])
        if device == "cpu":
            stack.enter_context(mock.patch.object(owner("decompositions"), "is_gpu", return_value=True))
            stack.enter_context(mock.patch.object(owner("joint_passes"), "check_device", return_value=True))
        yield


@functools.cache
def _asking() -> dict[types.FunctionType, dict[str, types.CodeType]]:
    """Functions that hold a device against "cpu" or "cuda", and the code of each by where the trace is."""
    functions = map(inspect.unwrap, owner("decompositions").select_decomp_table().values())
    modules = {COMMON, *(str(getattr(function, "__module__", None)) for function in functions)} & sys.modules.keys()
    found: dict[types.FunctionType, dict[str, types.CodeType]] = {}
    for name in sorted(modules):
        for made in list(vars(sys.modules[name]).values()):
            function: Any = inspect.unwrap(made) if callable(made) else None
            if isinstance(function, types.FunctionType) and function.__module__ == name and _asks(function):
                code = function.__code__
                found[function] = {"cuda": code, "cpu": code.replace(co_consts=_other(code.co_consts))}
    return found


def _asks(function: types.FunctionType) -> bool:
    """Whether a function compares with the name of a device, and does nothing else with that name."""
    if function.__name__.startswith(ON_THE_CPU) or all(_other(one) == one for one in function.__code__.co_consts):
        return False
    steps = [step for step in dis.get_instructions(function.__code__) if step.opname not in CALLS]
    named = [number for number, step in enumerate(steps, 1)
             if step.opname == "LOAD_CONST" and _other(step.argval) != step.argval]  # fmt: skip
    return all(COMPARES.match(" ".join(then.opname for then in steps[number:])) for number in named)


def _other(constant: Any) -> Any:
    """A constant in which "cpu" and "cuda" have changed places."""
    if isinstance(constant, tuple | frozenset):
        return type(constant)(map(_other, constant))
    return OTHER.get(constant, constant) if isinstance(constant, str) else constant
