"""What each room of the house costs: lines of Python, comments and tests, seconds of tests, and the last commit.

Lines are counted as `wc -l` does, in the files that git tracks, as they lie in the working tree; a comment line holds
nothing else. The idea of pricing each change in lines is tinygrad's.
"""

import io
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

from minilab import LabError

DURATIONS = Path("results/durations.xml")
LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
HEADINGS = ("room", "lines", "code", "comments", "share", "tests", "seconds", "last commit")
COUNTS = ("lines", "code", "comments", "tests")
NO_DURATIONS = (
    f"Seconds of tests: none were given. `pytest --junitxml={DURATIONS}` leaves them there, as .ci/run does; "
    "--durations names another such file."
)


def git(root: Path, *arguments: str) -> str:
    """Return what git prints of a repository.

    Raises:
        LabError: there is no git, or no commit yet.
    """
    try:
        return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise LabError(f"the price is counted in a clone that git knows: {said.strip().splitlines()[-1]}") from None


def code_and_comments(source: str) -> tuple[int, int]:
    """Count the lines of a module that run, docstrings left out, and those that are a comment alone."""
    running: set[int] = set()
    comments, begins = 0, True  # whether the next token begins a statement: a text there is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments += not token.line[: token.start[1]].strip()
        elif token.type in LAYOUT:
            begins = begins or token.type != tokenize.NL
        else:
            if not (begins and token.type == tokenize.STRING):
                running.update(range(token.start[0], token.end[0] + 1))
            begins = False
    return len(running), comments


def room_of(path: str, rooms: set[str]) -> str:
    """Name the room of a file: `package/room` below src/ and, mirrored, below tests/; elsewhere its folder."""
    first, *folders = Path(path).parent.parts or (".",)
    if first not in ("src", "tests"):
        return first
    for depth in (2, 1):
        if "/".join(folders[:depth]) in rooms:
            return "/".join(folders[:depth])
    return "/".join([first, *folders[:1]])


def seconds_by_file(durations: Path) -> dict[str, float]:
    """Add up how long the tests of each file took, from the JUnit file that `pytest --junitxml` writes.

    Raises:
        LabError: it is no such file.
    """
    try:
        cases = ElementTree.parse(durations).getroot().iter("testcase")
        timed = [(case.attrib["classname"], float(case.attrib["time"])) for case in cases]
    except (OSError, ElementTree.ParseError, KeyError, ValueError) as error:
        raise LabError(
            f"{durations} is not what `pytest --junitxml={durations}` writes ({error}); run that, or name another "
            "file with --durations."
        ) from None
    found: dict[str, float] = defaultdict(float)
    for name, seconds in timed:
        module = re.match(r"(?:\w+\.)*?test_\w+", name)  # a class of tests may follow
        found[f"{(module[0] if module else name).replace('.', '/')}.py"] += seconds
    return found


def counted(root: Path, durations: Path | None) -> dict[str, Counter]:
    """Count every room of a repository, in the order of their names.

    Returns:
        For each room `lines`, those of `code` and those of `comments` in its modules, lines of its `tests` and the
        `milliseconds` that these took, and lines `added` and `removed` in the last commit, tests included. What is
        nothing may be absent.
    """
    paths = git(root, "ls-files", "*.py").splitlines()
    rooms = {"/".join(Path(path).parent.parts[1:3]) for path in paths if path.startswith("src/")}
    table: dict[str, Counter] = defaultdict(Counter)
    for path in paths:
        if not (root / path).exists():
            continue  # removed, and not committed yet
        text, room = (root / path).read_text(encoding="utf-8"), table[room_of(path, rooms)]
        if path.startswith("tests/"):
            room["tests"] += text.count("\n")
        else:
            code, comments = code_and_comments(text)
            room.update(lines=text.count("\n"), code=code, comments=comments)
    for path, seconds in seconds_by_file(durations).items() if durations else ():
        table[room_of(path, rooms)].update(milliseconds=round(1000 * seconds))
    numbers = git(root, "show", "--numstat", "--format=", "--no-renames", "--first-parent", "-m", "HEAD", "--", "*.py")
    for added, removed, path in (line.split("\t") for line in numbers.splitlines()):
        table[room_of(path, rooms)].update(added=int(added), removed=int(removed))
    return dict(sorted(table.items()))


def row(name: str, room: Counter) -> tuple[str, ...]:
    """Write a room as cells of the table; what is nothing is left empty."""
    lines, code, comments, tests = (f"{room[key]:,}" if room[key] else "" for key in COUNTS)
    share = f"{100 * room['comments'] / room['lines']:.1f} %" if lines else ""
    seconds = f"{room['milliseconds'] / 1000:,.1f}" if room["milliseconds"] else ""
    changed = f"+{room['added']:,} −{room['removed']:,}" if room["added"] or room["removed"] else ""
    return name, lines, code, comments, share, tests, seconds, changed


def report(root: Path, durations: Path | None) -> str:
    """Write the table of all rooms, what src and everything come to, and which commit was the last."""
    table = counted(root, durations)
    in_src = (room for name, room in table.items() if (root / "src" / name).is_dir())
    totals = row("src", sum(in_src, Counter())), row("everything", sum(table.values(), Counter()))
    cells = [HEADINGS, *(row(*each) for each in table.items()), *totals]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in cells]
    timed = f"Seconds of tests: {durations}." if durations else NO_DURATIONS
    return "\n".join([*lines, "", f"Last commit: {git(root, 'log', '-1', '--format=%h %s').strip()}", timed])
