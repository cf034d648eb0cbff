"""What `linear_cross_entropy` can be asked for, what it refuses, and what follows from it for a token.

The gradient of token i's loss by its logit z_ij, before anything flows into it, is

    p_ij coefficient_i - picked_i [j = target_i] - spread_j

where coefficient_i is picked_i + sum(spread) + 2 z_loss lse_i, picked_i is (1 - label_smoothing)
class_weight[target_i] and spread_j is label_smoothing class_weight[j] / V.
Where j is the target, p_ij - 1 cancels in a confident row, so it is -(sum of the others' exponentials) / total.
"""

from typing import NamedTuple

import torch

from minilab import LabError

REDUCTIONS = ("mean", "sum", "none")
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Options(NamedTuple):
    """What is asked for besides the tensors."""

    ignore_index: int = -100
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    softcap: float = 0.0  # 0: none
    reduction: str = "mean"


class Inputs(NamedTuple):
    """A call's tensors, all on one device: h (M, D), weight (V, D), target (M,), bias and class_weight (V,) or None."""

    h: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    bias: torch.Tensor | None = None
    class_weight: torch.Tensor | None = None


class Wanted(NamedTuple):
    """Which gradients are to be made."""

    h: bool = False
    weight: bool = False
    bias: bool = False


def check_options(options: Options) -> None:
    """Refuse what no loss could mean, in one sentence.

    Raises:
        LabError: an option is out of its range.
    """
    if options.reduction not in REDUCTIONS:
        raise LabError(f"linear_cross_entropy reduces by {', '.join(REDUCTIONS)}, not by {options.reduction!r}.")
    if not 0.0 <= options.label_smoothing <= 1.0:
        raise LabError(f"label_smoothing lies between 0 and 1, and is {options.label_smoothing}.")
    if not 0.0 <= options.z_loss < float("inf"):
        raise LabError(f"z_loss is a factor of at least 0, and is {options.z_loss}.")
    if not 0.0 <= options.softcap < float("inf"):
        raise LabError(f"softcap is a bound above 0, or None, and is {options.softcap}.")


def check_tensors(inputs: Inputs) -> None:
    """Refuse tensors that do not fit together, in one sentence.

    Raises:
        LabError: a shape, a dtype or a device is wrong.
    """
    h, weight, target, bias, class_weight = inputs
    if h.dim() == 0 or weight.dim() != 2 or h.shape[-1] != weight.shape[1]:
        raise LabError(
            f"linear_cross_entropy takes h (..., D) and weight (V, D), not h {tuple(h.shape)} and weight "
            f"{tuple(weight.shape)}."
        )
    if weight.shape[0] == 0:
        raise LabError("linear_cross_entropy needs a weight of at least one row: no target fits a vocabulary of 0.")
    if target.dtype not in INTEGERS:
        raise LabError(
            f"target holds numbers of classes, so integers, and is {target.dtype}; probabilities are no targets here."
        )
    if target.shape != h.shape[:-1]:
        raise LabError(
            f"target has one class for each row of h, so the shape {tuple(h.shape[:-1])}, not {tuple(target.shape)}."
        )
    for name, vector in (("bias", bias), ("class_weight", class_weight)):
        if vector is not None and vector.shape != weight.shape[:1]:
            raise LabError(f"{name} has one number for each of {weight.shape[0]} classes, not {tuple(vector.shape)}.")
    given = {"h": h, "weight": weight, "bias": bias, "class_weight": class_weight}
    for name, tensor in given.items():
        if tensor is not None and tensor.dtype not in DTYPES:
            raise LabError(f"{name} is {tensor.dtype}; linear_cross_entropy computes in {', '.join(map(str, DTYPES))}.")
    devices = {tensor.device for tensor in (*given.values(), target) if tensor is not None}
    if len(devices) > 1:
        raise LabError(
            f"the tensors of one linear_cross_entropy are on one device, not on {', '.join(sorted(map(str, devices)))}."
        )


def check_targets(target: torch.Tensor, classes: int, ignore_index: int) -> None:
    """Refuse a class that is none, where looking costs no wait for a GPU.

    Raises:
        LabError: a target is neither `ignore_index` nor below `classes`.
    """
    wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
    if bool(wrong.any()):
        raise LabError(
            f"target {int(target[wrong][0])} is no class: there are {classes}, counted from 0, and {ignore_index} is "
            "ignored."
        )


def spread_of(options: Options, weight: torch.Tensor, class_weight: torch.Tensor | None) -> torch.Tensor | None:
    """(V,) what label smoothing wants of each class, in the accuracy of sums; None without smoothing."""
    if not options.label_smoothing:
        return None
    classes = weight.shape[0]
    dtype = sum_dtype(weight.dtype)
    if class_weight is None:
        return torch.full((classes,), options.label_smoothing / classes, dtype=dtype, device=weight.device)
    return class_weight.to(dtype) * (options.label_smoothing / classes)


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """What sums and losses are held in: float32, or float64 for float64."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def parts_of(number: int, each: int) -> int:
    """How many parts of `each` cover `number`; Triton's own `cdiv` takes the host six microseconds a call."""
    return -(-number // each)
