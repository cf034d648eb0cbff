"""Progress of long work: a terminal shows a bar and a line, a log file gets the plain line.

Code that logs a line adds `extra=progress(done, total)` to say how far the work has come. Each line has its own bar
instead of one live bar, because several jobs of a workflow write to one terminal.
"""

import logging
from collections.abc import Callable
from itertools import count

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR = 20  # characters
COLOURS = {logging.WARNING: "yellow", logging.ERROR: "bold red"}


def progress(done: int, total: int) -> dict:
    """Return the `extra` of a log record that says that `done` of `total` steps are over."""
    return {"progress": (done, total)}


def counted(log: logging.Logger, total: int) -> Callable[[str], None]:
    """Make a function that logs each line it is given as one more of `total` steps."""
    steps = count(1)
    return lambda line: log.info("%s", line, extra=progress(next(steps), total))


class TerminalHandler(logging.Handler):
    """Print log records on a terminal: the job's name, a bar where there is progress, the line; warnings in colour."""

    def __init__(self, job: str, console: Console | None = None) -> None:
        super().__init__()
        self.job, self.console = job, console or Console(stderr=True)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = Text(self.format(record), style=COLOURS.get(record.levelno, ""))
            row: list[RenderableType] = [Text(self.job, style="bold cyan"), line]
            if steps := getattr(record, "progress", None):
                done, total = steps
                row.insert(1, ProgressBar(total=total, completed=min(done, total), width=BAR))
            grid = Table.grid(padding=(0, 1))
            grid.add_row(*row)
            self.console.print(grid)
        except Exception:
            self.handleError(record)
