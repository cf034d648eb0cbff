"""Takes training steps back: for work that cannot be done in another process (`minicompile.safe.apart`)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.frozen_state import frozen


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
