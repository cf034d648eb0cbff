"""The code that Inductor writes for a model, never built or run: for this CPU, or an H200 that is not here."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn
from unittest import mock

import torch

from minicompile.torch_private import gpu_decompositions, simulated
from minicompile.torch_private.names import owner
from minicompile.torch_private.profiling import COMPILE_OPTIONS

# Held, whatever is tried: nothing comes out of a cache, and nothing runs on a device that is not here.
HELD: dict[str, Any] = {"force_disable_caches": True, **COMPILE_OPTIONS, **simulated.CONFIG, **simulated.UNTIMED}


def written(
    model: Callable, args: tuple, kwargs: dict, *, target: str, train: bool = False, options: dict | None = None
) -> list[str]:
    """The code of each graph and direction, in order, as Inductor hands it to be built.

    Args:
        model, args, kwargs: on the CPU; the model is called once, by eager code.
        target: `cpu` or `simulated`.
        train: the backward pass too.
        options: Inductor's, over its own and over `HELD`.
    """
    inductor, texts = owner("compile_fx"), list[str]()

    def keep(text: str) -> NoReturn:
        texts.append(text)
        raise simulated.CodeWritten

    def inner(module, inputs, **named):
        with contextlib.suppress(simulated.CodeWritten):
            inductor.compile_fx_inner(module, inputs, **named)
        return _never_run

    def moved(module, inputs, **named):
        with simulated.gpu_stand_in(), gpu_decompositions.traced_on("cuda"):
            return inner(*simulated.on_gpu(module, inputs), **named)

    def backend(module, inputs):
        with contextlib.ExitStack() as stack:
            stack.enter_context(owner("functorch_config").patch(force_non_lazy_backward_lowering=True))
            given: dict[str, Any] = {"inner_compile": inner}
            if target == "simulated":  # as a watch of this target does it
                stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
                stack.enter_context(gpu_decompositions.composites())
                stack.enter_context(gpu_decompositions.traced_on("cpu"))
                given = {"inner_compile": moved, "decompositions": gpu_decompositions.table()}
            inductor.compile_fx(simulated.copied(module), inputs, **given)
        return partial(simulated.results, module)

    with contextlib.ExitStack() as stack:
        stack.enter_context(owner("config").patch({**HELD, **(options or {})}))
        stack.enter_context(mock.patch.object(owner("save_output_code"), "save_output_code", keep))
        if target == "simulated":
            stack.enter_context(simulated.driver_stand_in())
        stack.enter_context(torch.set_grad_enabled(train))
        torch.compile(model, backend=backend)(*args, **kwargs)
    return texts


def _never_run(*_args) -> NoReturn:
    raise RuntimeError("code that was written alone cannot run")
