"""Takes training steps back: for work that is not done in another process (`minicompile.safe.smoketest.apart`)."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.state.frozen_state import CannotRestore, FrozenState, frozen
from minicompile.state.reach import reached
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private.tensors import COMPILED_CALL, uncompiled_call, version_of

PATIENCE_SECONDS = 10.0  # for calls of the model that other threads had begun


@contextmanager
def rewinding(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None, *others: Any
) -> Iterator[Callable[[], None]]:
    """Restore everything that the model, the optimizer and `others` can get at when the block ends, however it ends.

    Inside, gradients start at None, so that those the caller has accumulated are never written to. What it yields
    takes everything back to where the block began.

    Raises:
        CannotRestore: before the block, of what could not be restored after it; at its end, of what could not be.
    """
    parameters = [*model.parameters(), *_trained(optimizer)]

    def reshard() -> None:  # FSDP2: a step cut short may leave parameters gathered
        for module in model.modules():
            getattr(module, "reshard", lambda: None)()

    def drop_gradients() -> None:
        for parameter in parameters:
            parameter.grad = None

    with frozen(model, optimizer, *others) as state:
        state.refuse_what_cannot_be_restored()

        def rewind() -> None:
            reshard()
            state.restore()
            drop_gradients()

        drop_gradients()
        try:
            yield rewind
        finally:
            reshard()


def _trained(optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    groups = getattr(optimizer, "param_groups", None) or []
    return [parameter for group in groups for parameter in group["params"]]


class PassesState(FrozenState):
    """What a forward and a backward pass may change, at one moment.

    Parameters, and what an optimizer keeps of them, are not copied: passes leave them alone. Their version counters
    tell where one did not.
    """

    def __init__(self, optimizer: torch.optim.Optimizer | None, *given: Any) -> None:
        found = reached(optimizer, *given)
        kept_by_optimizer = {id(tensor) for tensor in reached(getattr(optimizer, "state", None)).tensors}
        self.still, changing = [], []
        for tensor in found.tensors:
            left_alone = isinstance(tensor, nn.Parameter) or id(tensor) in kept_by_optimizer
            if left_alone and not (nn.parameter.is_lazy(tensor) or tensor.is_inference()):
                self.still.append((tensor, version_of(tensor)))
            else:
                changing.append(tensor)
        self._keep(found, changing)

    def restore(self) -> None:
        """Put everything back. Raises `CannotRestore`, also where a parameter was written to."""
        super().restore()
        written = sum(version_of(tensor) != version for tensor, version in self.still)
        if written:
            sentence = f"a forward or backward pass has written to {written} parameters; they cannot be put back."
            raise CannotRestore(sentence, written, len(self.still), "written")


@contextmanager
def passes_taken_back(optimizer: torch.optim.Optimizer | None, *given: Any) -> Iterator[None]:
    """Take back what forward and backward passes change in what the optimizer and `given` can get at, but gradients.

    Raises:
        CannotRestore: something could not be copied or put back.
    """
    try:
        state = PassesState(optimizer, *given)
    except Exception as error:  # a kind of tensor that cannot be copied
        raise CannotRestore(f"the state cannot be copied: {error}", 1, 1, type(error).__name__) from error
    yield
    state.restore()


@contextmanager
def other_threads_waiting(model: nn.Module) -> Iterator[None]:
    """Have calls of the model by other threads wait until the block ends, and then see the model that it left.

    The block begins when the calls that were under way have returned.

    Raises:
        TimeoutError: one of them has not, within `PATIENCE_SECONDS`.
    """
    if hasattr(model, "_orig_mod") or any(dynamo_internals.is_fsdp(module) for module in model.modules()):
        yield
        return
    owner, over = threading.get_ident(), threading.Event()
    inner = vars(model).get(COMPILED_CALL)
    own_call = inner or uncompiled_call(model)

    def call(*args: object, **kwargs: object) -> object:
        if threading.get_ident() == owner:
            return own_call(*args, **kwargs)
        over.wait()
        return model(*args, **kwargs)

    setattr(model, COMPILED_CALL, call)
    try:
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while called_elsewhere(model, call.__code__):
            if time.monotonic() > patient_until:
                raise TimeoutError(
                    f"another thread has been in one call of the model for {PATIENCE_SECONDS:.0f} seconds, and its "
                    "answer would be wrong if the model were trained meanwhile"
                )
            time.sleep(0.001)
        yield
    finally:
        if inner is None:
            vars(model).pop(COMPILED_CALL, None)
        else:
            setattr(model, COMPILED_CALL, inner)
        over.set()


def called_elsewhere(model: nn.Module, waiting: CodeType) -> bool:
    """Whether another thread is in a call of the model or of a part of it, one in the function `waiting` apart."""
    parts, begins = {id(module) for module in model.modules()}, getattr(nn.Module.__call__, "__code__", None)
    for thread, innermost in sys._current_frames().items():
        frames = [] if thread == threading.get_ident() else [frame for frame, _ in traceback.walk_stack(innermost)]
        if any(frame.f_code is waiting for frame in frames):
            continue
        if any(frame.f_code is begins and id(frame.f_locals.get("self")) in parts for frame in frames):
            return True
    return False
