"""Names what compiled code depends on while no guard of Dynamo's looks at it, as far as it can be seen."""

from collections.abc import Iterable
from dataclasses import dataclass

from minicompile.safe.coverage.notices import Notice
from minicompile.torch_private import running


@dataclass(frozen=True)
class Unguarded:
    """One such thing.

    `code` is `environment` (`where` reads `os.environ`, and not all that it asks for is guarded), `hooks` (those of the
    module `where` are compiled in) or `hooks_changed` (since the compile).
    """

    code: str
    where: str

    def __str__(self) -> str:
        return {
            "environment": f"os.environ is read at {self.where}, unguarded: compiled code keeps what it said",
            "hooks": f"the hooks of `{self.where}` are compiled in: one added or taken away later goes unnoticed",
            "hooks_changed": f"the hooks of `{self.where}` have changed: what was compiled before runs those of then",
        }[self.code]


def read_while_tracing() -> list[Unguarded]:
    """What the compile under way has read and does not guard."""
    return [Unguarded("environment", place) for place in running.environment_reads()]


def hooks_within(notices: Iterable[Notice]) -> list[Unguarded]:
    """The modules in compiled code that have or had hooks, which torch does not guard by default."""
    found = []
    for notice in () if running.hooks_are_guarded() else notices:
        module = notice.module()
        if module is None or not notice.lies or notice.part.eager is not None:
            continue
        now = running.hooks_of(module)
        if notice.hooks is not None and now != notice.hooks:
            found.append(Unguarded("hooks_changed", notice.name))
        elif now:
            found.append(Unguarded("hooks", notice.name))
    return found
