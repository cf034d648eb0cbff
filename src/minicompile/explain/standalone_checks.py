"""What a kernel that was copied as a script checks itself with; its text becomes part of each such script.

So it imports nothing of the lab. `memory` says of each tensor its size, stride, dtype and whether the kernel reads what
is in it; `sentences` are those of locale/, with Python's fields.
"""

from collections.abc import Callable

import torch

SEED = 0
GUARD = 64  # elements of known content before and after each tensor: the redzones
KNOWN = 77  # that content
AS_EAGER = 10  # times eager's own error may the kernel's be, or times the dtype's resolution where eager has less


def made(size: tuple, stride: tuple, dtype: torch.dtype, filled: bool, *, positive: bool, device: str) -> torch.Tensor:
    """A tensor between two redzones; without content it holds NaN where its dtype has that."""
    length = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    whole = torch.full((length + 2 * GUARD,), KNOWN, dtype=dtype)
    inside = whole[GUARD : GUARD + length]
    if filled and dtype.is_floating_point:
        inside.copy_(torch.rand(length) + 0.1 if positive else torch.randn(length))
    elif filled:
        inside.copy_(torch.randint(0, 2, (length,)))  # as an index, within any axis of two or more
    elif dtype.is_floating_point:
        inside.fill_(torch.nan)
    return whole.to(device).as_strided(size, stride, GUARD)


def spoiled(tensor: torch.Tensor) -> bool:
    """Whether something was written into the redzones."""
    whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,), 0)
    known = torch.full_like(whole[:GUARD], KNOWN)
    return not (torch.equal(whole[:GUARD], known) and torch.equal(whole[-GUARD:], known))


def distance(value: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference over the largest finite number of the reference; infinite where NaN or infinity differ."""
    value, reference = value.double().cpu().flatten(), reference.double().cpu().flatten()
    finite = reference.isfinite()
    if not torch.equal(value[~finite].nan_to_num(nan=0.5), reference[~finite].nan_to_num(nan=0.5)):
        return torch.inf
    if not finite.any():
        return 0.0
    scale = reference[finite].abs().max().clamp_min(1e-30)
    return float(((value[finite] - reference[finite]).abs().max() / scale).nan_to_num(nan=torch.inf))


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def check(
    kernel: Callable, memory: dict, device: str, eager: Callable | None, values: dict, written: list, sentences: dict
) -> int:
    """Run the kernel and check it; prints which check was made and returns 0 if it passed, else 1.

    Args:
        kernel: takes the tensors of `memory` in their order.
        memory: name -> (size, stride, dtype, whether it holds something before).
        eager: the ATen operations; takes what a floating dtype becomes, and the tensors of `values`, and returns what
            the tensors that it names should hold. None: they cannot be re-created.
        values: ATen node -> the tensor that holds it.
        written: names of what the kernel writes.
    """
    for positive in (False, True):  # with numbers of both signs, unless a logarithm or a root makes most of them NaN
        torch.manual_seed(SEED)
        tensors = {name: made(*facts, positive=positive, device=device) for name, facts in memory.items()}
        given = {node: tensors[name].clone() for node, name in values.items()}
        wanted: dict[str, torch.Tensor] = {}
        own: dict[str, torch.Tensor] = {}
        if eager:
            exact = {node: widened(tensor) for node, tensor in given.items()}
            wanted, own = eager(lambda dtype: torch.float64, **exact), eager(lambda dtype: dtype, **given)
            if all(tensor.double().isfinite().double().mean() > 0.5 for tensor in wanted.values()):
                break
    kernel(*tensors.values())
    failures = [sentences["redzone"].format(name=name) for name, tensor in tensors.items() if spoiled(tensor)]
    for name, reference in wanted.items():
        value = tensors[name].reshape(reference.shape)
        error, eagers = distance(value, reference), distance(own[name], reference)
        resolution = torch.finfo(value.dtype).eps if value.is_floating_point() else 0
        allowed = AS_EAGER * max(eagers, resolution)
        print(sentences["compared"].format(name=name, error=error, eager=eagers, allowed=allowed))
        if not error <= allowed:
            failures.append(sentences["differs"].format(name=name))
    for name in [name for name in written if name not in wanted]:
        print(sentences["not_compared"].format(name=name))
        if not tensors[name].double().isfinite().all():
            failures.append(sentences["not_finite"].format(name=name))
    print(sentences["made_eager" if wanted else "made_redzones"])
    print("\n".join(failures) if failures else sentences["passed"])
    return 1 if failures else 0
