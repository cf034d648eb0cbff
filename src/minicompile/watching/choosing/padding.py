"""`pad_mm`, the choice that a clock makes: a product is padded where it was timed to be faster so.

Two captures of one model on one GPU may therefore differ. On the simulated target there is no clock: the product stays
as it is, unless a real device's choices are given, which are then taken over.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from minicompile.watching.choosing.hooking import Hooks, aside
from minicompile.watching.snapshot import number

NEEDED = ("should_pad", "pad_known", "pad_device", "pad_triton", "pad_bound")  # to stand in for the clock


class Padding:
    """The products of the graph that is being compiled whose padding was, or would be, decided by timing."""

    def __init__(self, simulated: bool, replay: Sequence[dict] = ()) -> None:
        self._simulated = simulated
        self._replay = list(replay)
        self._taken: list[dict] = []
        self._open: dict | None = None

    def patches(self, hooks: Hooks) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        yield from hooks.around("should_pad", self._asked)
        yield from hooks.around("pad_known", self._known)
        yield from hooks.around("pad_faster", self._timed)
        if self._simulated:
            for name in ("pad_device", "pad_triton", "pad_bound"):
                yield from hooks.around(name, lambda _: lambda *args, **kwargs: True)

    def configuration(self, hooks: Hooks) -> dict:
        """Settings of Inductor's: on the simulated target products may be padded, where no clock is asked."""
        return {"shape_padding": True} if self._simulated and not set(NEEDED) & set(hooks.absent) else {}

    def take(self) -> list[dict]:
        """The choices so far: `operation`, `nodes`, `inputs`, `padded`, `plain_ms`, `padded_ms`, `how`."""
        taken, self._taken = self._taken, []
        return taken

    def _asked(self, original):
        def should_pad(match, mat1, mat2, op, *args, **kwargs):
            record = _product(match, op, [mat1, mat2, *args, *kwargs.values()][:3])
            self._open, before = record, self._open
            try:
                padded = bool(original(match, mat1, mat2, op, *args, **kwargs))
            finally:
                self._open = before
            if record and record["how"]:
                self._taken.append({**record, "padded": padded})
            return padded

        return should_pad

    def _known(self, original):
        def get_cached_should_pad(key):
            if self._open is None:
                return False if self._simulated else original(key)
            if not self._simulated:
                known = original(key)
                self._open["how"] = "timed" if known is None else "remembered"
                return known
            for place, choice in enumerate(self._replay):
                if all(choice[field] == self._open[field] for field in ("operation", "inputs")):
                    self._open["how"] = "replayed"
                    return bool(self._replay.pop(place)["padded"])
            self._open["how"] = "untimed"
            return False

        return get_cached_should_pad

    def _timed(self, original):
        def is_padded_faster(key, plain_ms, padded_ms, *args):
            if self._open is not None:
                self._open.update(plain_ms=float(plain_ms), padded_ms=float(padded_ms), how="timed")
            return original(key, plain_ms, padded_ms, *args)

        return is_padded_faster


def _tensor(value: Any) -> dict:
    return {"size": [number(length) for length in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}


@aside
def _product(match: Any, op: Any, operands: list) -> dict:
    return {
        "operation": str(op).removeprefix("aten."),
        "nodes": [node.name for node in match.nodes],
        "inputs": [_tensor(one) for one in operands if one is not None],
        "plain_ms": None,
        "padded_ms": None,
        "how": None,
    }
