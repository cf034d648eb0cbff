"""What is wrong with a result that no relative error can be told of: its shape, its dtype, or the kind of a number.

A NaN, an infinity, or a number where another kind is right is told with its place, counted from 0 as an index is.
"""

import math
from typing import Any

import torch

from minikernel.reasons import Reason


def wrong_form(answer: dict, shape: list[int], dtype: str) -> Reason | None:
    """The reason of a result of another shape or dtype, as the kernel's process tells them; None: they are right."""
    got = answer.get("shape")
    if got != shape:
        # what the kernel's process says is quoted only where it can be meant
        is_shape = isinstance(got, list) and len(got) < 10 and all(type(size) is int and size < 1 << 48 for size in got)
        told = {"code": "wrong_shape", "shape": got, "right_shape": shape} if is_shape else {"code": "wrong_in_kind"}
        return told | {"mistake": "shape"}
    got = answer.get("dtype")
    if got != dtype:
        is_dtype = isinstance(got, str) and isinstance(getattr(torch, got, None), torch.dtype)
        told = {"code": "wrong_dtype", "dtype": got, "right_dtype": dtype} if is_dtype else {"code": "wrong_in_kind"}
        return told | {"mistake": "dtype"}
    return None


def wrong_value(got: torch.Tensor, exact: torch.Tensor, first_row: int = 0) -> Reason | None:
    """The reason of a result with an element that is wrong in kind: the first such element, and what is right there.

    Args:
        got: the result.
        exact: the right one in float64, of the same shape.
        first_row: number of the first row, where these are some rows of a result.

    Returns:
        None where every element is of the right kind, and none is infinitely far from what is right.
    """
    got, exact = got.double(), exact.to(got.device)
    off = (got.isnan() != exact.isnan()) | ((got.isinf() | exact.isinf()) & (got != exact) & ~exact.isnan())
    if not off.any():
        # Numbers all, one of them far from a right one that is next to 0: the one that is furthest.
        apart = ((got - exact).abs() / (exact.abs() + torch.finfo(torch.float32).tiny)).nan_to_num(0.0)
        if not apart.numel() or not apart.max() > 0:
            return None
        off = apart == apart.max()
    place = [int(number) for number in off.nonzero()[0]]
    value, right = (_told(one[tuple(place)].item()) for one in (got, exact))
    where: dict[str, Any] = {"code": "index", "shape": place}
    if got.dim() == 2:
        row, column = place
        where = {"code": "element", "row": first_row + row, "column": column}
        is_whole = off[row].all() and (got[row] == got[row, 0]).logical_or(got[row].isnan()).all()
        if is_whole and exact[row].isnan().all():
            where = {"code": "row", "row": first_row + row}
    return {"code": "wrong_value", "value": value, "right_value": right, "where": where}


def _told(value: float) -> dict[str, Any]:
    """A number as JSON has it; NaN and the infinities, for which it has nothing, by a code."""
    if math.isnan(value):
        return {"code": "nan"}
    if math.isinf(value):
        return {"code": "infinite" if value > 0 else "minus_infinite"}
    return {"code": "number", "number": value}
