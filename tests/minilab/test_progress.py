"""Progress: a bar for a terminal, the plain line for a log."""

import io
import logging

import pytest
from rich.console import Console

from minilab.progress import TerminalHandler, counted, progress


@pytest.fixture
def shown():
    """A logger of its own, the terminal and the log that it writes to."""
    log, terminal, plain = logging.Logger("shown"), io.StringIO(), io.StringIO()
    log.addHandler(TerminalHandler("train", Console(file=terminal, force_terminal=True, no_color=True, width=80)))
    log.addHandler(logging.StreamHandler(plain))
    return log, terminal, plain


def bar(terminal: io.StringIO) -> int:
    """How many characters of the terminal's bar are filled."""
    return terminal.getvalue().count("━")


def test_a_terminal_gets_the_jobs_name_a_bar_and_the_line_and_a_log_the_line(shown):
    log, terminal, plain = shown
    log.info("step %d of %d", 10, 20, extra=progress(10, 20))
    assert "train" in terminal.getvalue()
    assert "━" in terminal.getvalue()
    assert "step 10 of 20" in terminal.getvalue()
    assert plain.getvalue() == "step 10 of 20\n"


def test_a_line_without_progress_has_no_bar(shown):
    log, terminal, _ = shown
    log.info("285,656 parameters")
    assert bar(terminal) == 0
    assert "285,656 parameters" in terminal.getvalue()


def test_what_looks_like_markup_is_shown_as_it_is(shown):
    log, terminal, _ = shown
    log.warning("shape [2, 16] and [bold]")
    assert "[2, 16] and [bold]" in terminal.getvalue()


def test_counted_lines_come_one_step_further_each():
    steps = []
    log = logging.Logger("counted")
    log.addHandler(logging.Handler())
    log.handlers[0].emit = lambda record: steps.append(record.progress)
    say = counted(log, 3)
    say("one")
    say("two")
    assert steps == [(1, 3), (2, 3)]
