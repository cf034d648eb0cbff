"""Writes docs/faults.md: what can go wrong, as the tests declare that cause it (`tests/declared_faults.py`).

python tests/faults/faults.py            # writes the document
python tests/faults/faults.py --print    # prints it
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS, ROOT = HERE.parent, HERE.parents[1]
DOCUMENT = ROOT / "docs/faults.md"
HEAD = """# When something goes wrong

Each of these is caused on purpose by a test, and these tables are written from those tests
(`python tests/faults/faults.py`). Where the second column quotes a sentence, that is what you read, on one line, `...`
standing for names and numbers.

## A run of the lab

A run that says one of these sentences ends with a status that is not zero, unless the sentence begins with `left out`.
Every file is written under a temporary name and renamed when it is whole, so what is there is whole; a file whose name
begins with a dot is what a killed job left, and may be deleted.

After a run that was killed: `snakemake --unlock`, then the same command again. It builds what is missing, and only
that.
"""
COMPILED = """## A model that `maybe_compile` was given

What a call of a model is stands in `minicompile.safe.call`; each element of it has a row here, of a compiled model that
is wrong there and nowhere else. A sentence that begins with the name of an exception is the `reason` of
`compile_report(model)`; the others are in its fields, and those that begin with `torch.compile:` in the log.
"""
WATCHED = """## What `explore` and `capture` watched

The page says these.
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

A forged *compiled model* is a small model of drawn parts, and a backend of torch.compile that is wrong in one way, or
in none. It is held when `maybe_compile` leaves it eager exactly where, compiled without `maybe_compile`, it gives or
leaves something else than eager does.

Not promised: a file that is forged and signed anew, and fulfils its format, is accepted, since nothing tells it from
one that was made; only records can be signed by a person. A configuration that `--configfile` names and that is not
UTF-8 ends with Snakemake's own traceback, because Snakemake reads it before the lab runs. `minimodel.checkpoint` and
`minimodel.port` trust a file's claims about sizes; `minimodel.load_checkpoint`, `minimodel.load_port` and every job of
the workflow look at the file first.
"""

# The folder of tests -> what the faults stand under that they declare
SECTIONS = {"": HEAD, "minicompile/safe": COMPILED, "minicompile": WATCHED}


def declared_faults() -> Iterator[tuple[str, tuple[str, str | None, str]]]:
    """The folder of a test below tests/, and what a fault of it declares: in the order of files and lines."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if "from declared_faults import" not in path.read_text(encoding="utf-8"):
            continue
        if path.stem not in sys.modules:  # as it is where pytest has collected it
            sys.path.insert(0, str(path.parent))
        for value in vars(import_module(path.stem)).values():
            for mark in reversed(list(marks_of(value))):
                if mark.name == "fault":
                    yield path.parent.relative_to(TESTS).as_posix(), mark.args


def marks_of(test: object) -> Iterator[pytest.Mark]:
    """The marks of a test and of its cases, or of the tests in a class: the last first."""
    if isinstance(test, type) and test.__name__.startswith("Test"):
        for one in reversed(vars(test).values()):
            yield from marks_of(one)
    for mark in getattr(test, "pytestmark", []):
        yield mark
        if mark.name == "parametrize":
            yield from [one for case in reversed([*mark.args[1]]) for one in getattr(case, "marks", ())]


def document() -> str:
    """The text of docs/faults.md."""
    rows: dict[str, list[str]] = {folder: [] for folder in SECTIONS}
    for folder, (what, says, then) in declared_faults():
        section = max((known for known in SECTIONS if folder.startswith(known)), key=len)
        rows[section].append(f"| {what} | {f'“{says}”' if says else 'nothing: it goes on'} | {then} |")
    table = ["| what goes wrong | what you see | what then |", "|---|---|---|"]
    parts = [[head, *table, *rows[folder], ""] for folder, head in SECTIONS.items()]
    return "\n".join([*(line for part in parts for line in part), MISUSE, *campaign_section()])


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
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    sys.path[:0] = [str(HERE), *(str(ROOT / folder) for folder in settings["pythonpath"])]
    if sys.argv[1:] == ["--print"]:
        print(document(), end="")
    else:
        DOCUMENT.write_text(document())
