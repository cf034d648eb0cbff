"""The rungs of the whole model, each a function from token ids to the probabilities of the next word.

From the bottom: PyTorch eager; torch.compile in its default mode, with CUDA graphs, and with autotuned kernels besides;
the lab's fused kernels in a CUDA graph; and the whole forward pass in one kernel.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minikernel.measure.model.names import COMPILED, EAGER, GRAPH, ONE
from minimodel.torch_minigpt import GrammarMiniGPT

Forward = Callable[[Tensor], Tensor]  # ids (B, T) int64 -> probabilities (B, T, V)


def forwards(model: GrammarMiniGPT) -> dict[str, Forward]:
    """Every rung's forward pass of a model, by name; nothing is compiled before its first call."""
    return {
        EAGER: model.probabilities,
        **{name: compiled(model, mode) for name, mode in COMPILED.items()},
        **ours(model),
    }


def compiled(model: GrammarMiniGPT, mode: str) -> Forward:
    """The model compiled by itself in a mode of torch.compile, for the one shape that it will be called with.

    Dynamo keeps what it compiled with the code of the function; one that shared its code with others would be looked
    for among theirs at each call, and more than some would be refused.
    """
    function = with_code_of_its_own(lambda ids: model.probabilities(ids))
    # one shape and no graph breaks: each mode at its best
    made = torch.compile(function, dynamic=False, fullgraph=True, mode=mode)
    if mode == "default":
        return made

    def call(ids: Tensor) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()  # what the call before returned is not needed any more
        return made(ids)

    return call


def with_code_of_its_own(function: Callable) -> Callable:
    """The same function with another code object."""
    assert isinstance(function, FunctionType)
    # equal, and another object: Dynamo's cache hangs on the object
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def ours(model: GrammarMiniGPT) -> dict[str, Forward]:
    """The lab's own rungs; what a kernel does not take, it refuses."""
    # imported when it is asked for: on a CPU the rungs below are timed without it
    from minikernel.model.forward import minigpt_forward

    return {GRAPH: Replayed(model), ONE: partial(minigpt_forward, model, probabilities=True, fall_back=False)}


class Replayed:
    """The lab's fused kernels in a CUDA graph, which is captured at the first call and replayed at each."""

    def __init__(self, model: GrammarMiniGPT) -> None:
        self._model = model
        self._graph: Any = None

    def __call__(self, ids: Tensor) -> Tensor:
        from minikernel.model.graph.captured import GraphForward

        # captured at the first call, when the shape is known
        if self._graph is None:
            self._graph = GraphForward(self._model, (ids.shape[0], ids.shape[1]))
        return self._graph(ids)

    def replay(self) -> None:
        """Run it again for the ids of the last call."""
        self._graph.replay()


def stamps(rung: str, model: GrammarMiniGPT, ids: Tensor) -> np.ndarray:
    """What the kernels of one of the lab's rungs wrote down in one forward pass, as `stamps.blocks_of` takes it."""
    from minikernel.model import forward
    from minikernel.model.graph import captured

    found = (captured if rung == GRAPH else forward).timeline(model, ids)
    return found.cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)


def use_one_assembler() -> None:
    """Have Inductor's compile workers and this process assemble with the same ptxas.

    A torch built for CUDA brings one, which its workers take, while this process would take Triton's. Its version is
    part of a compiled kernel's name, so nothing that the workers compiled would be found, and each of max-autotune's
    choices would be compiled once more, one after the other.

    Triton up to 3.8 does so below compute capability 10.0. From there on, and from 9.0 on in Triton 3.9, it assembles
    with the `ptxas-blackwell` of its own wheel in both processes: the variable is not read, and is not needed.
    """
    ptxas = Path(torch.__file__).parent / "bin/ptxas"
    if os.access(ptxas, os.X_OK):
        os.environ.setdefault("TRITON_PTXAS_PATH", str(ptxas))
