"""Whose values are these: a line's or a buffer's against those of every node of the graph, place by place."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch

from minicompile.verifying.graphs import Layouts
from minicompile.verifying.kernels import Access, Ran, Seen

MOST = 1 << 23  # places of a line in one program
QUICK = 96  # places that are looked at first
PICKED = 5  # values by which nodes are looked up
EPSILON = {
    torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7,
    torch.float8_e4m3fn: 2.0**-3, torch.float8_e5m2: 2.0**-2,
}  # fmt: skip
ROUNDINGS = 8.0  # of a few operations, one after the other
HALVES = 6.0  # in 16 bits the graph rounds after each operation and a kernel at the end


@dataclass
class Values:
    """A node's."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    flat: torch.Tensor  # float64, or int64
    scale: float
    rounded: float  # the scale of its roundings: its own, or that of what was subtracted on its way
    constant: bool
    wide: bool  # a float
    unit: float  # of the last place, in the narrowest dtype that it was rounded to on its way

    @classmethod
    def of(cls, name: str, value: torch.Tensor, unit: float = 0.0, lost: float = 1.0) -> "Values":
        wide = value.dtype.is_floating_point
        flat = value.detach().reshape(-1).to(torch.float64 if wide else torch.int64)
        scale = scale_of(flat)
        constant = bool(flat.numel() and (flat == flat[0]).all())
        several = constant and flat.numel() > 1
        return cls(name, tuple(value.shape), value.dtype, flat, scale, scale * lost, several, wide,
                   max(unit, EPSILON.get(value.dtype, 0.0)))  # fmt: skip


def scale_of(values: torch.Tensor) -> float:
    """How large numbers are, by the root of their mean square; of those that are finite."""
    wide = values.double()
    scale = float(wide.pow(2).mean().sqrt()) if values.numel() else 1.0
    if math.isfinite(scale):
        return scale
    finite = wide[torch.isfinite(wide)]
    return float(finite.pow(2).mean().sqrt()) if finite.numel() else 1.0


@dataclass
class Match:
    """That values are a node's on one run."""

    count: int
    error: float  # in units of the last place
    full: bool  # all elements of the node were met
    exact: bool  # in the node's own dtype
    near: bool  # within the rounding of that dtype
    met: torch.Tensor | None  # which elements of the node, where not all


def tolerance(unit: float, terms: int) -> float:
    """How many units of the last place apart two ways to compute a value may be that sums up so many terms."""
    return HALVES if unit > EPSILON[torch.float32] else ROUNDINGS + 2 * math.log2(max(terms, 2))


def apart(
    values: torch.Tensor, node: Values, index: torch.Tensor, dtype: torch.dtype, scale: float | None = None
) -> torch.Tensor:
    """By how many units of the last place values differ from a node's at their places, each of a scale at least."""
    wanted = node.flat[index]
    if not node.wide:
        return torch.where(values == wanted, 0.0, math.inf)
    unit = max(node.unit, EPSILON.get(dtype, 0.0))
    off = (values - wanted).abs() / wanted.abs().clamp(min=max(node.rounded if scale is None else scale, 1e-300)).mul_(
        unit
    )
    odd = off.isnan()  # of infinities, and of what is no number
    if bool(odd.any()):
        same = (values == wanted) | (values.isnan() & wanted.isnan())
        off = torch.where(odd, torch.where(same, 0.0, math.inf), off)
    return off


def _tells(values: torch.Tensor, node: Values, index: torch.Tensor, dtype: torch.dtype, allowed: float) -> bool:
    """Whether values tell a node from zeros, by its own scale or by that of its roundings."""
    return any(
        bool(
            (values.abs() > allowed * node.unit * scale).any()
            & (apart(values, node, index, dtype, scale) <= allowed).all()
        )
        for scale in (node.scale, node.rounded)
    )


def _may_be(values: Any, node: Values, index: Any, dtype: torch.dtype, allowed: float) -> bool:
    """The same of a few values, for which NumPy is quicker; what it lets pass is looked at as a whole."""
    if (index < 0).any():
        return False
    wanted = node.flat.numpy()[index]
    if not node.wide:
        return bool((values == wanted).all())
    unit = max(node.unit, EPSILON.get(dtype, 0.0))
    with numpy.errstate(all="ignore"):
        far = ~(numpy.abs(values - wanted) <= allowed * unit * numpy.maximum(numpy.abs(wanted), node.rounded))
    return not (far.any() and (far & (values != wanted) & ~(numpy.isnan(values) & numpy.isnan(wanted))).any())


class Candidates:
    """The nodes' values of one run, and which of them hold a number."""

    def __init__(self, values: Iterable[Values]) -> None:
        self.every = {one.name: one for one in values if one.flat.numel()}
        self._wide = [one for one in self.every.values() if one.wide]
        self.rest = [one.name for one in self.every.values() if not one.wide]

    @cached_property
    def _sorted(self) -> tuple[Any, Any, Any]:
        """Every number that a node has, in order, whose it is, and by how much it may be off."""
        wide = self._wide
        flat = torch.cat([one.flat for one in wide]).numpy()
        owners = numpy.repeat(numpy.arange(len(wide)), [one.flat.numel() for one in wide])
        order = numpy.argsort(flat, kind="stable")
        owners = owners[order]
        return flat[order], owners, numpy.array([one.rounded * one.unit * 64 for one in wide])[owners]

    def of(self, values: torch.Tensor, wide: bool) -> list[str]:
        """The nodes that may have these values, by a few of them."""
        if not wide:
            return self.rest
        values = values.float() if values.dtype.itemsize == 1 else values
        finite = values[torch.isfinite(values)]
        if not len(finite) or not self._wide:
            return [one.name for one in self._wide if not bool(torch.isfinite(one.flat).all())]
        telling = finite[finite != 0]  # many a node has a zero
        telling = telling if len(telling) else finite
        picked = telling[torch.linspace(0, len(telling) - 1, min(PICKED, len(telling))).long()].tolist()
        left: set[int] | None = None
        flat, owners, slacks = self._sorted
        most = max(one.rounded * one.unit * 64 for one in self._wide)
        unit = max(one.unit for one in self._wide) * 64
        for one in picked:
            slack = most + abs(one) * unit
            low, high = numpy.searchsorted(flat, [one - slack, one + slack])
            near = numpy.abs(flat[low:high] - one) <= slacks[low:high] + abs(one) * unit
            found = set(owners[low:high][near].tolist())
            left = found if left is None else left & found
        return [self._wide[one].name for one in sorted(left or ())]


@dataclass
class Place:
    """How the places of a block count the elements of a shape, in one program."""

    shape: tuple[int, ...]
    by_program: dict[int, list[tuple[torch.Tensor, torch.Tensor | None]]]


def places_of(ran: Ran) -> list[Place]:
    """Every way in which a kernel counts: by the addresses that it loads and stores, and by its own axes."""
    made: dict[tuple, Place] = {}
    inverse: dict[str, torch.Tensor] = {}

    def add(key: tuple, shape: tuple[int, ...], program: int, index: torch.Tensor, there: torch.Tensor | None) -> None:
        place = made.setdefault(key, Place(shape, {}))
        place.by_program.setdefault(program, []).append((index, there))

    for access in ran.accesses:
        if access.line in ran.by_data:  # in an order that the values make
            continue
        tensor = access.memory.tensor
        if access.memory.argument not in inverse:
            back = torch.full((access.memory.flat.numel(),), -1)
            every = torch.arange(back.numel()).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
            back[every.reshape(-1)] = torch.arange(tensor.numel())
            inverse[access.memory.argument] = back
        index = _within(inverse[access.memory.argument], access)
        there = index >= 0
        add((access.line, access.memory.argument, access.stored), tuple(tensor.shape), access.program, index, there)
    for counted in ran.natural:
        for position, (program, index, sizes) in enumerate(counted):
            there = (index >= 0) & (index < math.prod(sizes))
            add(("own", position, sizes), sizes, program, index, there)
    unique: list[Place] = []
    for place in made.values():
        if not any(_equal(place, one) for one in unique):
            unique.append(place)
    return unique


def _within(back: torch.Tensor, access: Access) -> torch.Tensor:
    if access.mask is None:
        return back[access.offsets]
    safe = torch.where(access.mask, access.offsets, torch.zeros_like(access.offsets))
    return torch.where(access.mask, back[safe], torch.full_like(safe, -1))


def _equal(first: Place, second: Place) -> bool:
    if first.shape != second.shape or first.by_program.keys() != second.by_program.keys():
        return False
    return all(
        len(one) == len(other) and all(torch.equal(a[0], b[0]) for a, b in zip(one, other, strict=True))
        for one, other in zip(first.by_program.values(), second.by_program.values(), strict=True)
    )


class Pairs:
    """Values of a line and the elements that its places count, one beside the other; all of them, or a few."""

    def __init__(self, seen: Sequence[Seen], place: Place) -> None:
        self.shape = place.shape
        self._parts: list[tuple[Seen, torch.Tensor, torch.Tensor | None, torch.Size]] = []
        self._whole: tuple[torch.Tensor, torch.Tensor] | None = None
        by_program: dict[int, list[Seen]] = {}
        for one in seen:
            by_program.setdefault(one.program, []).append(one)
        for program, had in by_program.items():
            counted = place.by_program.get(program)
            if counted is None:
                continue
            pairs = list(zip(had, counted, strict=False)) if len(had) == len(counted) else [(had[-1], counted[-1])]
            for value, (index, there) in pairs:
                try:
                    shape = torch.broadcast_shapes(value.values.shape, index.shape)
                except RuntimeError:
                    self._parts = []
                    return
                several = value.values.ndim and index.ndim and value.values.ndim != index.ndim
                if several or math.prod(shape) > MOST:
                    self._parts = []
                    return
                self._parts.append((value, index, there, shape))

    def few(self) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = [torch.zeros(0)], [torch.zeros(0, dtype=torch.int64)]
        parts = self._parts[:: max(1, len(self._parts) // 4)]
        for value, index, there, shape in parts:
            picked = torch.linspace(0, math.prod(shape) - 1, min(QUICK, math.prod(shape))).long()
            at = torch.unravel_index(picked, shape) if shape else ()
            keep = torch.ones(len(picked), dtype=torch.bool)
            for mask in (value.valid, there):
                if mask is not None:
                    keep &= _picked(mask, at, shape, len(picked))
            values.append(_picked(value.values, at, shape, len(picked))[keep])
            places.append(_picked(index, at, shape, len(picked))[keep])
        return torch.cat(values[1:] or values), torch.cat(places[1:] or places)

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._whole is None:
            values, places = [], []
            for value, index, there, shape in self._parts:
                held, at = torch.broadcast_to(value.values, shape), torch.broadcast_to(index, shape)
                masks = [one for one in (value.valid, there) if one is not None and not bool(one.all())]
                if masks:
                    keep = torch.broadcast_to(masks[0], shape)
                    for mask in masks[1:]:
                        keep = keep & mask
                    held, at = held[keep], at[keep]
                values.append(held.reshape(-1))
                places.append(at.reshape(-1))
            self._whole = torch.cat(values), torch.cat(places)
        return self._whole

    def __bool__(self) -> bool:
        return bool(self._parts)


def _picked(of: torch.Tensor, at: Sequence[torch.Tensor], shape: torch.Size, count: int) -> torch.Tensor:
    """Some places of what broadcasts to a shape."""
    if of.ndim == 0:
        return of.expand(count)
    own = at[len(shape) - of.ndim :]
    return of[tuple(one if size > 1 else torch.zeros_like(one) for one, size in zip(own, of.shape, strict=True))]


def whole_pair(content: torch.Tensor) -> Pairs:
    """A buffer's content, in the order of its elements."""
    index = torch.arange(content.numel()).reshape(content.shape)
    place = Place(tuple(content.shape), {0: [(index, None)]})
    return Pairs([Seen(0, content.detach(), None, False)], place)


def candidates_of(seen: Sequence[Seen], candidates: Candidates) -> list[str]:
    """The nodes that a line may have the values of, by some of its places."""
    few = []
    for one in seen[:: max(1, len(seen) // 4)]:
        shape = one.values.shape
        picked = torch.linspace(0, max(0, one.values.numel() - 1), min(QUICK, one.values.numel())).long()
        at = torch.unravel_index(picked, shape) if shape else ()
        values = _picked(one.values, at, shape, len(picked))
        few.append(values if one.valid is None else values[_picked(one.valid, at, shape, len(picked))])
    values = torch.cat(few)
    return candidates.of(values, values.dtype.is_floating_point) if values.numel() else []


def matched(
    pairs: Pairs, names: Sequence[str], candidates: Candidates, layouts: Layouts, terms: int
) -> dict[str, Match]:
    """The nodes of these names whose values a line has, where its places count the elements of a shape."""
    found: dict[str, Match] = {}
    few, few_index = pairs.few()
    if not names or not few.numel():
        return found
    dtype, wide = few.dtype, few.dtype.is_floating_point
    held = torch.float64 if wide else torch.int64
    quick, quick_index = few.to(held).numpy(), few_index.numpy()
    flat: torch.Tensor | None = None
    for name in names:
        node = candidates.every[name]
        if node.wide != wide or (wide and EPSILON[dtype] > EPSILON[node.dtype]):
            continue  # it was rounded, and the node was not
        if dtype == torch.bool != node.dtype:
            continue  # a flag is no number, though a number may be 0 or 1
        allowed = tolerance(node.unit, terms)
        for way in layouts.ways(pairs.shape, node.shape):
            if not _may_be(quick, node, quick_index if way is None else way.numpy()[quick_index], dtype, allowed):
                continue
            values, index = pairs.whole()
            if flat is None:
                flat = values.to(held)
            constant = len(flat) > 1 and bool((flat == flat[0]).all())
            if constant != node.constant and (not constant or 1 < len(node.flat) <= len(flat)):
                break
            lies = index if way is None else way[index]
            if bool((lies < 0).any()):
                continue
            if constant and not node.constant and bool((lies != lies[0]).any()):
                continue  # one number, in several of the node's places: some of its elements have it by chance
            off = apart(flat, node, lies, dtype)
            if not bool((off <= allowed).all()):
                continue
            if wide and bool((off > 0).any()) and not _tells(flat, node, lies, dtype, allowed):
                continue  # noise about the node's zeros
            met = torch.zeros(len(node.flat), dtype=torch.bool)
            met[lies] = True
            error = float(off.max()) if wide else 0.0
            own = EPSILON.get(node.dtype, 1.0)
            near = error * node.unit <= own * tolerance(own, terms)
            full = bool(met.all())
            match = Match(len(flat), error * node.unit, full, node.dtype == dtype, near, None if full else met)
            if name not in found or (match.full, -match.error) > (found[name].full, -found[name].error):
                found[name] = match
    return found


def in_branches(found: dict[Any, dict[str, Match]], branches: dict[int, tuple[Any, int]]) -> None:
    """A loop's whole vectors and what is left over are lines of their own: what each misses, the others may have."""
    sliced: dict[tuple[Any, str], list[tuple[int, Match]]] = {}
    for (line, _), matches in found.items():
        if line in branches:
            loops, branch = branches[line]
            for name, one in matches.items():
                if one.met is not None:
                    sliced.setdefault((loops, name), []).append((branch, one))
    for many in sliced.values():
        for branch, one in many:
            met = one.met
            for other, beside in many:
                if other != branch and met is not None and beside.met is not None:
                    met = met | beside.met
            one.full = one.full or (met is not None and bool(met.all()))
