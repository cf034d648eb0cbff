"""A model's weights on its GPU, packed once for each kernel that reads them, and anew when one has changed."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from minikernel.model.fragments import check_fits, check_range
from minikernel.model.parameters import Taken
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


class Weights(Taken):
    """What the kernels need of a model.

    Attributes:
        config: its sizes.
        dtype: of all its parameters, float32 or bfloat16.
        device, gpu: theirs, and its number.
        arrays: its parameters in float32 on the CPU, named as `MiniGPTConfig.shapes` names them.
        tokens, places: both embeddings, (V, d) and (block_size, d), contiguous.
    """

    def __init__(self, model: GrammarMiniGPT) -> None:
        """Take a model's weights.

        Raises:
            LabError: the kernels do not take the model or its device.
        """
        self.config, self.dtype, self.device = model.config, model.lm_head.weight.dtype, model.lm_head.weight.device
        _check_place(self.dtype, self.device)
        check_fits(self.config)
        parameters = dict(model.named_parameters())
        others = {each.dtype for each in parameters.values()} | {each.device for each in parameters.values()}
        if others != {self.dtype, self.device}:
            raise LabError(
                "the forward pass in one kernel takes parameters of one dtype on one device; move them there."
            )
        super().__init__(model)  # before they are read: what changes meanwhile is noticed
        self.arrays = {name: parameters[torch_name(name)].detach().float().cpu().numpy() for name in self.config.shapes}
        # bfloat16 is multiplied as it is and has float32's range
        if self.dtype == torch.float32:
            check_range(self.config, self.arrays)
        # Not copied where they are contiguous: the embeddings are read as the model has them.
        self.tokens, self.places = (
            each.weight.detach().contiguous() for each in (model.token_embedding, model.position_embedding)
        )
        self.gpu = self.tokens.get_device()
        self.kept_by: object = None  # the extension that knows these weights
        self._packed: dict[Hashable, Any] = {}

    def once(self, key: Hashable, pack: Callable[[], Any]) -> Any:
        """What `pack` makes of the weights, made at the first call with this key."""
        if key not in self._packed:
            self._packed[key] = pack()
        return self._packed[key]


# Weakly, so that packed weights go with their model.
_found: "weakref.WeakKeyDictionary[GrammarMiniGPT, Weights]" = weakref.WeakKeyDictionary()


def last_weights_of(model: GrammarMiniGPT) -> Weights | None:
    """The weights that were taken last, whether or not the model still has them; None: there are none yet."""
    return _found.get(model)


def weights_of(model: GrammarMiniGPT) -> Weights:
    """The model's weights, taken anew where a parameter has changed.

    Raises:
        LabError: the kernels do not take the model or its device.
    """
    return Weights.of(model, _found)


def check_ids(weights: Weights, ids: Tensor) -> None:
    """Refuse ids that the kernels do not take.

    Raises:
        LabError: they are not (B, T) int64 on the model's device, or T is more than its block_size.
    """
    if ids.dim() != 2 or ids.dtype != torch.int64 or ids.device != weights.device:
        raise LabError(
            f"the forward pass in one kernel takes ids (batch, sequence), int64, on {weights.device}, and got "
            f"{tuple(ids.shape)}, {ids.dtype}, on {ids.device}."
        )
    if ids.shape[1] > weights.config.block_size:
        raise LabError(
            f"minigpt_forward got a sequence of {ids.shape[1]} ids, and the model's positions end at block_size = "
            f"{weights.config.block_size}; give it the last {weights.config.block_size} ids."
        )


def _check_place(dtype: torch.dtype, device: torch.device) -> None:
    if device.type != "cuda":
        raise LabError(
            f"the forward pass in one kernel runs on a GPU, and this model is on {device}; move it with .to."
        )
    if dtype not in NAMES:
        raise LabError(f"the forward pass in one kernel computes in float32 or bfloat16, and this model is {dtype}.")
    # both kernels are written with bulk copies and clusters, which came together
    if softmax_cuda.limits_of(device.index).blocks < 8:
        raise LabError(
            "the forward pass in one kernel needs compute capability 9.0 or later, and this GPU is older; call the "
            "model itself."
        )
