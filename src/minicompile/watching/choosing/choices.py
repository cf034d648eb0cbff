"""What Inductor chose between, and how: algorithms, patterns, decompositions, layouts, and what a clock decided.

`Choices` is entered for the time of a compile like the other hooks. A kind of choice whose private functions the
installed torch lacks is absent from what is taken, and named.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from minicompile.watching.choosing.autotuned import Autotuned
from minicompile.watching.choosing.heuristics import KernelTimes
from minicompile.watching.choosing.hooking import Hooks
from minicompile.watching.choosing.padding import Padding
from minicompile.watching.choosing.passes import Layouts, Passes


class Choices:
    """The choices about the graph that is being compiled; `take` hands them over.

    Args:
        target: `simulated`, or anything else for what is here.
        replay: on the simulated target, the choices that a clock made on a real device (kind `clock` of a capture).
    """

    def __init__(self, target: str | None, replay: Sequence[Any] = ()) -> None:
        simulated = target == "simulated"
        self._hooks = Hooks()
        self._autotuned, self._passes, self._layouts = Autotuned(simulated), Passes(), Layouts()
        self._padding = Padding(simulated, replay)
        self.kernel_times = KernelTimes()

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        for part in (self._autotuned, self._passes, self._layouts, self._padding, self.kernel_times):
            yield from part.patches(self._hooks)

    @property
    def absent(self) -> list[str]:
        """Names of torch's that are missing, of those that the patches wanted."""
        return list(dict.fromkeys(self._hooks.absent))

    def configuration(self) -> dict:
        """Settings of Inductor's that the patches need."""
        return self._padding.configuration(self._hooks)

    def forget(self) -> None:
        """What was seen of a compile that wrote no code is not the next one's."""
        self.take(None)

    def take(self, graph: Any) -> dict[str, list[dict]]:
        """The choices since the last time, by kind.

        Args:
            graph: the live `GraphLowering` whose code has just been written.
        """
        patterns, decompositions = self._passes.take()
        return {
            "algorithm": self._autotuned.take(),
            "clock": self._padding.take(),
            "pattern": patterns,
            "decomposition": decompositions,
            "layout": self._layouts.take(graph),
        }
