"""What can go wrong, as data: each fault is declared by the test that causes it, and `docs/faults.md` lists them.

    @fault("the checkpoint is cut short", says="... is refused ...", then="Nothing is written.")
    def test_a_truncated_checkpoint(tiny, says): ...

`says` is what the user reads, on one line, `...` standing for anything; the fixture of that name hands it to the test,
which holds the run against it. `python tests/faults/faults.py` writes the document.
"""

import json
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
MISUSE = """## Misuse of the library

`maybe_compile`, `capture`, `annotate`, `render_explorer`, `explore` and the command `minicompile` refuse an argument of
the wrong kind in one sentence, before anything is compiled (`LabError`; the command ends with status 1). What they are
given to compile may fail in any way: `maybe_compile` gives the model back as it was and says at which stage, and where
the model fails without torch.compile too, it says `eager`. That holds for a model that raises, crashes its process or
waits for a lock of another thread, and for one that hangs, which the limit ends; for state that nothing can find and
take back; for models that call themselves equal; for threads that compile one model at once; for Ctrl-C in the middle;
for a full disk, a limit on the size of files, and a process in which compiling is switched off.

The smoketest costs the compile, four to five eager steps, and the copy of the process: some hundredths of a second,
which count where a step takes less. Only a step that fails costs more, to be sure why (`benchmarks/maybe_compile.py`).

Not promised: a folder for torch's caches that cannot be made (`TORCHINDUCTOR_CACHE_DIR`) ends the import of torch's own
compiler, and with it that of the library, with torch's traceback. A model whose numbers differ from call to call by
nature, from `os.urandom` say, is called wrong. `capture` passes on the exception of a model that cannot be called with
the inputs it is given.
"""
FORGED = """## Forged files

`python tests/faults/campaign.py --tries 10000` forges what the lab reads, from seeds, and reads it as the lab does, in
a process with limits; a small campaign is part of `pytest`. A try is *held* when the forgery is refused in one sentence
of at most {limit} characters, or when what is accepted is right: it is what the original holds, or it fulfils all that
its format promises. It is a *traceback* when any other exception comes out, *wrong* when what was accepted is not right
or the process died, a *hang* after {seconds:.0f} s of a processor, *memory* beyond {megabytes} MiB more than before.

Not promised: a file that is forged and signed anew, and fulfils its format, is accepted, since nothing tells it from
one that was made; only records can be signed by a person. A configuration that `--configfile` names and that is not
UTF-8 ends with Snakemake's own traceback, because Snakemake reads it before the lab runs. `minimodel.checkpoint` and
`minimodel.port` trust a file's claims about sizes; `minimodel.load_checkpoint`, `minimodel.load_port` and every job of
the workflow look at the file first.
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
    table = ["| what goes wrong | what you see | what then |", "|---|---|---|", *rows, ""]
    return "\n".join([HEAD, *table, MISUSE, *campaign_section()])


def campaign_section() -> list[str]:
    """What the last large campaign of forgeries found; nothing where there was none."""
    campaign = import_module("campaign")
    if not campaign.TABLE.exists():
        return []
    made = json.loads(campaign.TABLE.read_text())
    return [
        FORGED.format(limit=campaign.LONGEST_SENTENCE, seconds=campaign.SECONDS, megabytes=campaign.MEGABYTES),
        f"The last large campaign ({made['date']}): {made['tries']:,} tries, from number {made['first']} on, in "
        f"{made['seconds'] / 60:.0f} minutes on {made['processes']} processes.",
        "",
        campaign.in_markdown(made),
        "",
    ]


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent / "workflow")]
    if sys.argv[1:] == ["--print"]:
        print(document(), end="")
    else:
        DOCUMENT.write_text(document())
