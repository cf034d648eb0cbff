"""What can go wrong, as data: each fault is declared by the test that causes it, and `docs/faults.md` lists them.

    @fault("the checkpoint is cut short", says="... is refused ...", then="Nothing is written.")
    def test_a_truncated_checkpoint(tiny, says): ...

`says` is what the user reads, on one line, `...` standing for anything; the fixture of that name hands it to the test,
which holds the run against it. `python tests/faults/faults.py` writes the document.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs/faults.md"
HEAD = """# When something goes wrong

Each of these is caused on purpose by a test in `tests/faults/`, and this table is written from those tests
(`python tests/faults/faults.py`). Where the second column quotes a sentence, that is what the run says, on one line,
`...` standing for names and numbers; it then ends with a status that is not zero, unless the sentence begins with
`left out`. Every file is written under a temporary name and renamed when it is whole, so what is there is whole; a file
whose name begins with a dot is what a killed job left, and may be deleted.

After a run that was killed: `snakemake --unlock`, then the same command again. It builds what is missing, and only
that.
"""


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Attributes:
        what: what goes wrong.
        says: what the user reads; None where the run goes on undisturbed.
        then: what is kept, and how to go on.
    """

    what: str
    says: str | None
    then: str


def fault(what: str, says: str | None, then: str) -> Callable[[Callable], Callable]:
    """Declare the fault that a test causes."""

    def declared(test: Callable) -> Callable:
        test.faults = [*getattr(test, "faults", []), Fault(what, says, then)]
        return test

    return declared


def check_says(output: str, says: str) -> None:
    """Hold a run's output against the sentence: exactly there on one line, and no traceback beside it."""
    pattern = re.escape(says).replace(r"\.\.\.", ".*")
    lines = {line.strip().removeprefix("Error: ") for line in output.splitlines()}
    assert any(re.fullmatch(pattern, line) for line in lines), f"nothing like {says!r} in\n{output}"
    assert "Traceback (most recent call last)" not in output, output


def declared_faults() -> Iterator[Fault]:
    """The faults of all tests here, in the order of files and lines."""
    for path in sorted(HERE.glob("test_*.py")):
        for value in vars(import_module(path.stem)).values():
            yield from reversed(getattr(value, "faults", []))


def document() -> str:
    """The text of docs/faults.md."""
    rows = [
        f"| {found.what} | {f'“{found.says}”' if found.says else 'nothing: the run goes on'} | {found.then} |"
        for found in declared_faults()
    ]
    return "\n".join([HEAD, "| what goes wrong | what you see | what then |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent / "workflow")]
    if sys.argv[1:] == ["--print"]:
        print(document(), end="")
    else:
        DOCUMENT.write_text(document())
