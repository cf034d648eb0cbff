"""Decides whether a compiled step computes what the eager one did.

A compiler may reorder sums, so equality is asked for within a relative tolerance by dtype. An element's
difference is held against its own size plus the root mean square of its tensor, because elements near zero
are the small difference of large terms. A gradient that is zero by cancellation, such as that of a key's bias
under softmax, is rounding noise through and through; gradients are therefore also given a tenth of the
root mean square over all gradients. NaN and infinity must stand where eager has them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from minicompile.safe.failures import WrongNumbers

# Several hundred times the rounding error of each dtype: room for reordered sums through a deep model.
# "tf32" is float32 whose matrix products are rounded to 10 bits (torch.backends.cuda.matmul.allow_tf32).
TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "tf32": 1e-2, "float16": 2e-2, "bfloat16": 8e-2}
GRADIENT_FACTOR = 10  # a gradient passes through the model twice and is summed over the batch
NOISE_SHARE = 0.1  # of the root mean square over all gradients


@dataclass(frozen=True)
class Difference:
    """The largest difference between two tensors, as a multiple of what the tolerance allows at 1.0."""

    name: str
    relative: float


def comparison_dtype(model: nn.Module, tensors: Iterable[Tensor]) -> str:
    """Find the coarsest floating-point arithmetic among the parameters, the tensors given, and autocast."""
    dtypes = {t.dtype for t in (*model.parameters(), *tensors) if t.is_floating_point()}
    devices = {t.device.type for t in (*model.parameters(), *tensors)}
    dtypes |= {torch.get_autocast_dtype(d) for d in devices if torch.is_autocast_enabled(d)}
    names = {str(dtype).removeprefix("torch.") for dtype in dtypes}
    if "float32" in names and "cuda" in devices and torch.backends.cuda.matmul.allow_tf32:
        names.add("tf32")
    known = [name for name in TOLERANCES if name in names]
    return known[-1] if known else "float32"


def dense(tensor: Tensor) -> Tensor:
    """Return the elements in float32 or float64: strided, this rank's shard of a DTensor, complex numbers as pairs."""
    tensor = tensor.detach()
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def root_mean_square(tensors: Iterable[Tensor]) -> float:
    """Compute it over all finite elements of all tensors; 0.0 where there are none."""
    total, count = 0.0, 0
    for tensor in map(dense, tensors):
        norm = torch.linalg.vector_norm(tensor, dtype=torch.float64).item()
        if not math.isfinite(norm):
            tensor = tensor[tensor.isfinite()]
            norm = torch.linalg.vector_norm(tensor, dtype=torch.float64).item()
        total, count = total + norm**2, count + tensor.numel()
    return math.sqrt(total / count) if count else 0.0


def compare(ours: Tensor, reference: Tensor, name: str, tolerance: float, noise: float = 0.0) -> Difference:
    """Hold a tensor against its reference, element by element.

    Args:
        ours, reference: same shape and dtype; anything that is not floating point must be equal.
        tolerance: largest |ours - reference| / (|reference| + rms(reference) + noise).
        noise: an absolute size below which numbers are rounding noise.

    Raises:
        WrongNumbers: shapes or dtypes differ, or some element is further off.
    """
    if ours.shape != reference.shape or ours.dtype != reference.dtype:
        raise WrongNumbers(
            f"{name} is {ours.dtype} of shape {tuple(ours.shape)} compiled and {reference.dtype} of shape "
            f"{tuple(reference.shape)} eager; the compiled model is wrong.",
            "other_shape",
            tensor=name,
            compiled=f"{ours.dtype} {list(ours.shape)}",
            eager=f"{reference.dtype} {list(reference.shape)}",
        )
    if not (reference.is_floating_point() or reference.is_complex()):
        if not torch.equal(ours, reference):
            sentence = f"{name} ({reference.dtype}) differs from eager's; the compiled model is wrong."
            raise WrongNumbers(sentence, "unequal", tensor=name, dtype=str(reference.dtype))
        return Difference(name, 0.0)
    ours, reference = dense(ours), dense(reference)
    if not reference.numel():
        return Difference(name, 0.0)
    relative = largest_relative(ours, reference, noise)
    if relative <= tolerance:  # which NaN and infinity are not
        return Difference(name, relative)
    finite = reference.isfinite()
    if not torch.equal(ours.isfinite(), finite) or not same_where_not(finite, ours, reference):
        raise WrongNumbers(
            f"{name} has NaN or infinity where eager has not, or not where it has; it is wrong compiled.",
            "not_finite",
            tensor=name,
        )
    ours, reference = (ours, reference) if finite.all() else (ours[finite], reference[finite])
    if not reference.numel():
        return Difference(name, 0.0)
    relative = largest_relative(ours, reference, noise)
    if relative > tolerance:
        off = f"{name} is off by {relative:.3g} of its size, and {tolerance:.3g} is allowed"
        raise WrongNumbers(
            f"{off}; the compiled model is wrong.", "too_far", tensor=name, relative=relative, allowed=tolerance
        )
    return Difference(name, relative)


def largest_relative(ours: Tensor, reference: Tensor, noise: float) -> float:
    """Compute the largest |ours - reference| / (|reference| + rms(reference) + noise); NaN where either holds a NaN."""
    norm = torch.linalg.vector_norm(reference, dtype=torch.float64).item()  # squares leave float32's range
    rms = norm / math.sqrt(reference.numel())
    # Where the reference is zero throughout and there is no noise, nothing but zero is allowed.
    allowed = reference.abs().add_(max(rms + noise, torch.finfo(torch.float32).tiny))
    return (ours - reference).abs_().div_(allowed).max().item()


def same_where_not(finite: Tensor, ours: Tensor, reference: Tensor) -> bool:
    """Say whether both have NaN in the same places and infinities of the same signs, outside `finite`."""
    if finite.all():
        return True
    return torch.equal(ours[~finite].nan_to_num(), reference[~finite].nan_to_num())
