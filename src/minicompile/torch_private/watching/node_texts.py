"""What Inductor prints of its nodes, each text once.

A node is printed before fusion and again when its code has been written. Most of it is the same: printing a loop body
compiles a module each time, and printing dependencies walks all their expressions.
"""

from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from minicompile.torch_private.choosing.hooking import Hooks


class NodeTexts:
    """Texts that were printed, by what they depend on."""

    def __init__(self) -> None:
        self._hooks = Hooks()
        self._texts: dict[Any, str] = {}

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        yield from self._hooks.around("pformat", self._set)
        yield from self._hooks.around("block_text", self._block)

    def _once(self, key: Any, printed: Callable[[], str]) -> str:
        if key not in self._texts:
            self._texts[key] = printed()
        return self._texts[key]

    def _set(self, original):
        def pformat(obj):
            if isinstance(obj, Set):  # of dependencies, which are never changed
                return self._once(tuple(obj), partial(original, obj))
            return original(obj)

        return pformat

    def _block(self, original):
        def debug_str(block, name="block"):
            return self._once((name, str(block.graph)), partial(original, block, name))

        return debug_str
