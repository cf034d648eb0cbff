"""What kernels read of a model, made of its parameters once, and anew when one of them has changed."""

import functools
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Self

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from minikernel.model.driver import Launch
from minilab import LabError

MOST_LAUNCHES = 512  # that are kept, a kilobyte or two each


class Snapshot:
    """A model's parameters as they are when this is made; it holds their memory, so that no others get its addresses.

    What counts as a change: a parameter written in place, by an optimizer or by `load_state_dict`, given other `.data`,
    moved or converted, or replaced, as may be the module that has it. Writing to `parameter.data`, through NumPy or by
    the replay of a CUDA graph does not: torch does not count it either.

    Raises:
        LabError: the parameters were made in inference mode, where torch counts nothing.
    """

    def __init__(self, model: nn.Module) -> None:
        if any(parameter.is_inference() for parameter in model.parameters()):
            raise LabError(
                "the model's parameters were made in torch.inference_mode, which does not count their changes, so that "
                "packed weights could be old ones; make or load the model outside of it."
            )
        _count_fused_steps()
        # Kept alive, so that an address cannot come back with other values in it while this compares addresses.
        self._memory = [parameter.detach() for parameter in model.parameters()]
        # What `current` asks for each parameter: that the module still has it under its name (replaced?), its version
        # (written in place?) and its address (other `.data`?).
        self._parameters = [
            (module._parameters, name, parameter, parameter._version, parameter.data_ptr())
            for module in model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]
        # and that no module with parameters has been replaced by another
        self._modules = [
            (parent._modules, name, module)
            for parent in model.modules()
            for name, module in parent._modules.items()
            if module is not None and any(True for _ in module.parameters())
        ]

    def tables(self) -> list[tuple[dict, str, Any, int, int]]:
        """What each table of a module must hold under a name, and a parameter's version and address."""
        return [*self._parameters, *((*each, 0, 0) for each in self._modules)]

    def current(self) -> bool:
        """Whether the model's parameters are the same, with the same values."""
        # a plain loop: no call for each parameter but torch's own
        for parameters, name, parameter, version, address in self._parameters:
            if (
                parameters.get(name) is not parameter
                or parameter._version != version
                or parameter.data_ptr() != address
            ):
                return False
        return all(modules.get(name) is module for modules, name, module in self._modules)


@functools.cache
def _count_fused_steps() -> None:
    """Have fused optimizers count what they write, as torch's other optimizers do."""

    def count(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            # torch's fused kernels write parameters without counting a version
            if group.get("fused"):
                torch.autograd.graph.increment_version(group["params"])

    register_optimizer_step_post_hook(count)


class Taken:
    """What kernels read of a model.

    Attributes:
        snapshot: of the parameters that it was made of.
        launches: of kernels that read it, by what is asked of them.
        in_graphs: whether CUDA graphs may read it.
        replaced: those before this that CUDA graphs may still read.
    """

    def __init__(self, model: nn.Module) -> None:
        self.snapshot = Snapshot(model)
        self.launches: dict[Hashable, Launch] = {}
        self.in_graphs = False
        self.replaced: list[Self] = []

    def launch(self, key: Hashable, make: Callable[[], Launch]) -> Launch:
        """The launch of this key, made at the first call with it."""
        found = self.launches.get(key)
        if found is None:
            # shapes without end would fill the memory; the next call of each makes it anew
            if len(self.launches) >= MOST_LAUNCHES:
                self.launches.clear()
            found = self.launches[key] = make()
        return found

    def launched(self) -> None:
        """Take note of a launch that reads this: one that is captured in a CUDA graph may do so at any time later."""
        self.in_graphs = self.in_graphs or torch.cuda.is_current_stream_capturing()

    @classmethod
    def of(cls, model: nn.Module, kept: MutableMapping[Any, Self]) -> Self:
        """The one that is kept for a model, made anew where a parameter has changed since.

        Raises:
            LabError: the kernels do not take the model or its device.
        """
        found = kept.get(model)
        if found is None or not found.snapshot.current():
            anew = cls(model)
            # Weights that a CUDA graph was captured with stay where they are: its replay reads those addresses.
            if found is not None:
                anew.replaced = [*found.replaced, *([found] if found.in_graphs else [])]
            found = kept[model] = anew
        return found
