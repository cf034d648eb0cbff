"""Decides whether a compiled step computes what the eager one did.

A compiler may reorder sums, so equality is asked for within a relative tolerance by dtype. An element's
difference is held against its own size plus the root mean square of its tensor, because elements near zero
are the small difference of large terms. A gradient that is zero by cancellation, such as that of a key's bias
under softmax, is rounding noise through and through; gradients are therefore also given a tenth of the
root mean square over all gradients. NaN and infinity must stand where eager has them.

In arithmetic coarser than float32 an element may be far off and be right, so tensors are judged as a whole as well: the
distance between the compiled one and eager's, in the Euclidean norm, against the distance of eager's own from the same
step in float32. A gradient that points elsewhere or has another length is further away than that.

What is too far in float32 is held against eager's own distance from float64. Of a few numbers that distance may be
small by luck; so it is the largest from several states that lie close together, in each of which every sum is rounded
otherwise. A gradient that is zero by cancellation is noise in float64 as well, and shows by that: made larger by as
much as float32 is coarser, it still is nothing beside the others, and eager's is not it. That much is noise in float32,
and another compile's may be many times eager's, which may sum in float64 or in another order. A mistake is a share of
the terms that cancel, of which the noise is some ten-millionth.
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
NOISE_SHARE = 0.1  # of the root mean square over all gradients, in coarse arithmetic
FINE_NOISE_SHARE = 0.01  # in float32 and float64
FILLED = 1e3  # a constant that is so many times what else a tensor holds was filled in
FILLS = 2  # such constants that a tensor may hold
LARGE = 0.1  # of the largest element, from which on one belongs to a tensor's large part
RESIDUE = 50  # times the tolerance: as much of the large part's size may be in what is left of it where it cancels
# Of arithmetic coarser than float32: the unit in the last place, relative to the number.
UNITS = {"tf32": 2**-10, "float16": 2**-10, "bfloat16": 2**-7}
EAGER_ERRORS = 4  # a compiled tensor may be so many times as far from eager's as eager's is from float32's
HAIR = 2e-3  # of a parameter: by so much, and twice and three times as much, those states lie apart
NEARBY = 3  # such states, beside the one that training has come to
ZERO_ERRORS = 32  # the same of a gradient that is zero by cancellation: up to 24 times was measured, on a CPU
COARSER = 2**29  # so many times a float64's rounding is a float32's
LEAST_UNITS = 2  # and so many units always
FARTHEST = 0.2  # of the tensor's own length, whatever eager's error is
FEWEST = 16  # elements of a tensor that is judged as a whole: the error of a single number may be zero by luck


@dataclass(frozen=True)
class Difference:
    """The largest difference between two tensors, as a multiple of what the tolerance allows at 1.0."""

    name: str
    relative: float


def comparison_dtype(model: nn.Module, tensors: Iterable[Tensor]) -> str:
    """Find the coarsest floating-point arithmetic among the parameters, the tensors given, and autocast."""
    dtypes = {t.dtype for t in (*model.parameters(), *tensors) if t.is_floating_point()}
    devices = {t.device.type for t in (*model.parameters(), *tensors)}
    devices = {device for device in devices if torch.amp.is_autocast_available(device)}
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
    tensor = tensor.resolve_conj().resolve_neg()
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
        ours, reference = (one if one.layout is torch.strided else one.to_dense() for one in (ours, reference))
        if not torch.equal(ours, reference):
            sentence = f"{name} ({reference.dtype}) differs from eager's; the compiled model is wrong."
            raise WrongNumbers(sentence, "unequal", tensor=name, dtype=str(reference.dtype))
        return Difference(name, 0.0)
    ours, reference = dense(ours), dense(reference)
    if not reference.numel():
        return Difference(name, 0.0)
    relative = largest_relative(ours, reference, noise, tolerance)
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
    relative = largest_relative(ours, reference, noise, tolerance)
    if relative > tolerance:
        off = f"{name} is off by {relative:.3g} of its size, and {tolerance:.3g} is allowed"
        raise WrongNumbers(
            f"{off}; the compiled model is wrong.", "too_far", tensor=name, relative=relative, allowed=tolerance
        )
    return Difference(name, relative)


def tells(reference: Tensor) -> bool:
    """Say whether agreement with a tensor says something: whether an element is finite and not zero."""
    if reference.dtype == torch.bool or not (reference.is_floating_point() or reference.is_complex()):
        return reference.numel() > 0
    values = dense(reference)
    return bool((values.isfinite() & (values != 0)).any())


def allowed_distance(reference: Tensor, finer: Tensor | None, dtype: str, noise: float) -> float:
    """Compute how far, in the Euclidean norm, a compiled tensor may be from eager's in coarse arithmetic.

    Args:
        reference: eager's tensor.
        finer: the same in float32; None where it is not known.
        dtype: a key of `UNITS`.
        noise: as `compare` takes it.
    """
    reference = dense(reference)
    length = torch.linalg.vector_norm(reference, dtype=torch.float64).item()
    farthest = max(FARTHEST * length, noise * math.sqrt(reference.numel()))
    if finer is None or finer.shape != reference.shape:
        return farthest
    error = torch.linalg.vector_norm(dense(finer).double() - reference.double()).item()
    error = error if math.isfinite(error) else math.inf
    return min(farthest, max(EAGER_ERRORS * error, LEAST_UNITS * UNITS[dtype] * length))


def compare_as_a_whole(
    ours: Tensor, reference: Tensor, finer: Tensor | None, name: str, dtype: str, noise: float
) -> None:
    """Hold a tensor in coarse arithmetic against eager's by direction and length.

    Args:
        ours, reference: same shape and dtype.
        finer, dtype, noise: as `allowed_distance` takes them.

    Raises:
        WrongNumbers: they are further apart than eager's own rounding explains.
    """
    if dtype not in UNITS or not (reference.is_floating_point() or reference.is_complex()):
        return
    if reference.numel() < FEWEST or not bool(dense(reference).isfinite().all()):
        return
    allowed = allowed_distance(reference, finer, dtype, noise)
    distance = torch.linalg.vector_norm(dense(ours).double() - dense(reference).double()).item()
    length = torch.linalg.vector_norm(dense(reference), dtype=torch.float64).item()
    if not distance <= allowed:
        relative, share = (value / max(length, torch.finfo(torch.float32).tiny) for value in (distance, allowed))
        raise WrongNumbers(
            f"{name} is {relative:.3g} of its length away from eager's, and {share:.3g} is allowed by what eager's own "
            f"{dtype} rounding costs; the compiled model is wrong.",
            "too_far",
            tensor=name,
            relative=relative,
            allowed=share,
        )


def largest_relative(ours: Tensor, reference: Tensor, noise: float, tolerance: float) -> float:
    """Compute the largest |ours - reference| / (|reference| + rms(reference) + noise); NaN where either holds a NaN.

    The root mean square is that of what was computed: a constant far beyond it, which both hold to the bit, was filled
    in, as a mask is. Where numbers are far beyond all others, as where a mask is added, the others have their own.
    """
    size = reference.abs()
    counts = torch.ones_like(size, dtype=torch.bool)
    for _ in range(FILLS):
        largest = size[counts].max()
        fill = counts & (size == largest)
        rest = counts & ~fill
        if not rest.any() or not torch.equal(ours[fill], reference[fill]):
            break
        if not largest > FILLED * _rms(reference[rest]):
            break
        counts = rest
    rms = _rms(reference[counts])
    small = counts & (size < LARGE * size[counts].max())
    if small.any() and size[counts & ~small].min() > FILLED * _rms(reference[small]):
        rms = max(_rms(reference[small]), min(1.0, RESIDUE * tolerance) * rms)
    # Where the reference is zero throughout and there is no noise, nothing but zero is allowed.
    allowed = size.add_(max(rms + noise, torch.finfo(torch.float32).tiny))
    return (ours - reference).abs_().div_(allowed).max().item()


def _rms(tensor: Tensor) -> float:
    norm = torch.linalg.vector_norm(tensor, dtype=torch.float64).item()  # squares leave float32's range
    return norm / math.sqrt(tensor.numel())


def same_where_not(finite: Tensor, ours: Tensor, reference: Tensor) -> bool:
    """Say whether both have NaN in the same places and infinities of the same signs, outside `finite`."""
    if finite.all():
        return True
    return torch.equal(ours[~finite].nan_to_num(), reference[~finite].nan_to_num())
