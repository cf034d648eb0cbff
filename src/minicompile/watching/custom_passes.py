"""Passes of Inductor's configuration that look at a graph, after those that the user has configured."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class _After:
    """A pass of Inductor's that runs the user's own before ours."""

    first: Callable
    then: Callable

    def __call__(self, given):
        returned = self.first(given)
        return self.then(given if returned is None else returned)


def after(first: Callable | None, then: Callable) -> Callable:
    """A pass that runs after the one that is configured, unless that is it already."""
    if first is None or first == then:
        return then
    return first if isinstance(first, _After) and first.then == then else _After(first, then)
