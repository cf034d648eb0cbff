"""From a Triton kernel's lines to TTIR, TTGIR, LLVM IR, PTX and SASS: texts without debug information, and line maps.

Triton writes locations into its MLIR (`loc(#loc12)`), LLVM IR (`!dbg !12`), PTX (`.loc 1 34 12`) and, through ptxas,
into the machine code, where `nvdisasm --print-line-info-inline` shows them. What was inlined from a helper belongs to
the helper's line and to each line that called it, as far as they are in the kernel's file: in all of these texts
alike, so that a line of the kernel lights what came of it in each.
"""

import functools
import re
from pathlib import Path
from typing import cast

from minicompile.lowering.captured import Assembly, Graph, Kernel
from minicompile.lowering.panes.listings import fitting
from minicompile.lowering.panes.panes import Mapped, Panes, Place, lines_of, place_of

LANGUAGES = {"ttir": "mlir", "ttgir": "mlir", "llir": "llvm", "ptx": "ptx", "sass": "sass"}
FIGURES = ("architecture", "configuration", "candidates", "registers", "shared_bytes", "stack_bytes")
LOCATION = re.compile(r"^#(?P<name>loc\d*) = loc\((?P<body>.*)\)$")
USE = re.compile(r" loc\((?:#(?P<name>loc\d*)|[^()]*(?:\([^()]*\))?[^()]*)\)$")
PLACES = re.compile(r' loc\((?:"[^"]*"\()?(?:callsite\()?[#\w\s]*\)*(?=[,)]|$)')
FILE_LINE = r'"(?:[^"]*/)?{file}":(\d+)'
METADATA = re.compile(r"^!(\d+) = (.*)$")
PLACED = re.compile(r", !dbg !(\d+)")
PLACE = re.compile(r",? !dbg !\d+")
PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
PTX_LOC = re.compile(
    r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)"
    r"(?:.*inlined_at\s+(?P<caller>\d+)\s+(?P<at>\d+)\s+(?P<at_column>\d+))?"
)
SASS_LINE = re.compile(r"^\s*//## File ")
SASS_PLACE = re.compile(r'"([^"]*)", line (\d+)')
SASS_CODE = re.compile(r"^\s*(?:/\*[0-9a-f]{4,}\*/|\.L_\w+:)")


def mlir_lines(text: str, file: str) -> Mapped:
    """TTIR or TTGIR without locations; `file` is the name of the kernel's file."""
    lines_of_text = text.splitlines()
    bodies = {
        match["name"]: match["body"]
        for line in lines_of_text
        if "#loc" in line and (match := LOCATION.match(line.strip()))
    }
    in_file = re.compile(FILE_LINE.format(file=re.escape(file)))

    @functools.cache  # several lines are at one place
    def named(name: str) -> Place:
        # of `callsite(#helper at #caller)` both count, of a fused location all; locations may refer to each other
        met, waiting, found = set[str](), [name], set[int]()
        while waiting:
            one = waiting.pop()
            if one not in met:
                met.add(one)
                body = bodies.get(one, "")
                found |= {int(line) for line in in_file.findall(body)}
                waiting += re.findall(r"#(loc\d*)", body)
        return place_of(found)

    lines: Mapped = []
    opened: list[int] = []  # places in `lines` at which operations begin that have a region, a reduction or a loop
    for line in lines_of_text:
        if LOCATION.match(line.strip()):
            continue
        match = USE.search(line)
        place = named(match["name"]) if match and match["name"] else None
        if line.lstrip().startswith("}") and opened:
            # such an operation's location stands where its region ends
            start = opened.pop()
            if len(opened) > 1:  # the module and the function have no place
                lines[start] = lines[start][0], place
        if line.endswith("{"):
            opened.append(len(lines))
        lines.append((PLACES.sub("", USE.sub("", line)), place) if "loc" in line else (line, None))
    return lines


def llvm_lines(text: str, file: str) -> Mapped:
    """LLVM IR without its metadata."""
    lines_of_text = text.splitlines()
    metadata = {
        match[1]: match[2] for line in lines_of_text if line.startswith("!") and (match := METADATA.match(line))
    }

    def named(body: str, field: str) -> str | None:
        match = re.search(rf"\b{field}: !(\d+)", body)
        return metadata.get(match[1]) if match else None

    @functools.cache  # several instructions are at one place
    def place(body: str | None) -> Place:
        found = []
        while body:
            scope = named(body, "scope")
            source = named(scope, "file") if scope else None
            number = re.search(r"\bline: (\d+)", body)
            if source and number and f'filename: "{file}"' in source:
                found.append(int(number[1]))
            body = named(body, "inlinedAt")
        return place_of(found)

    lines: Mapped = []
    for line in lines_of_text:
        if line.startswith(("!", "; ModuleID", "source_filename")):
            continue
        if "!dbg" not in line:
            lines.append((line, None))
            continue
        match = PLACED.search(line)
        # a `define` names the function's own record, whose line is no place of an instruction
        found = place(metadata.get(match[1])) if match and not line.startswith("define") else None
        lines.append((PLACE.sub("", line), found))
    while lines and not lines[-1][0].strip():
        lines.pop()
    return lines


def ptx_lines(text: str, file: str) -> Mapped:
    """PTX without its line directives and debug sections."""
    lines_of_text = text.splitlines()
    files = {
        match[1]: Path(match[2]).name for line in lines_of_text if ".file" in line and (match := PTX_FILE.match(line))
    }
    callers: dict[tuple, tuple | None] = {}  # file, line and column of what was inlined, and of where
    current: Place = None
    lines: Mapped = []
    for line in lines_of_text:
        if ".loc" in line and (match := PTX_LOC.match(line)):
            at, caller = match.group("file", "line", "column"), match.group("caller", "at", "at_column")
            callers[at] = caller if match["caller"] else None
            chain = list[tuple]()
            place: tuple | None = at
            while place is not None and place not in chain:
                chain.append(place)
                place = callers.get(place)
            current = place_of(int(line) for number, line, _ in chain if files.get(number) == file)
            continue
        stripped = line.strip()
        if re.match(r"\.(?:section|file)\b", stripped):
            if stripped.startswith(".section"):
                break  # what follows is debug information
            continue
        # a place holds until the next `.loc`, but labels, directives and braces are no instructions
        code = stripped and not stripped.startswith(("//", ".", "$", "{", "}", "("))
        shown = re.sub(r"\s*//.*$", "", line) if code and "//" in line else line
        lines.append((shown, current if code else None))
    while lines and not lines[-1][0].strip():
        lines.pop()
    return lines


def sass_lines(text: str, file: str) -> Mapped:
    """The instructions of `nvdisasm -gi`, which writes each of a chain of inlined places above them."""
    current, ended = set[int](), True  # whether instructions have followed the places
    lines: Mapped = []
    for line in text.splitlines():
        if SASS_LINE.match(line):
            current, ended = set() if ended else current, False
            current |= {int(number) for name, number in SASS_PLACE.findall(line) if Path(name).name == file}
        elif SASS_CODE.match(line):
            ended = True
            lines.append((line.strip(), None if line.strip().startswith(".L") else place_of(current)))
    return lines


def with_assembly(graph: Graph, found: dict[str, dict], panes: Panes) -> Graph:
    """Show what a graph's Triton kernels were compiled to; returns the graph with its kernels' resource figures.

    Args:
        graph: as it was built, which stays as it is.
        found: by kernel the texts of each stage, and what it uses.
        panes: gets the panes of their texts, with the links to them.
    """
    shown = list[Kernel]()
    kept = fitting(graph, {name: made["llir"].count("\n") for name, made in found.items()})
    for number, kernel in enumerate(graph["kernels"]):
        name = kernel["name"]
        if made := found.get(name):
            kernel = {**kernel, "assembly": _assembly(panes, graph, number, made, name in kept)}
        shown.append(kernel)
    return {**graph, "kernels": shown}


def _assembly(panes: Panes, graph: Graph, number: int, made: dict, keep_llir: bool) -> Assembly:
    """A kernel's figures; its texts and their links are added to `panes`."""
    first, file = graph["kernels"][number]["first"], f"{graph['kernels'][number]['name']}.py"
    texts: dict[str, Mapped] = {
        "ttir": mlir_lines(made["ttir"], file),
        "ttgir": mlir_lines(made["ttgir"], file),
        "llir": llvm_lines(made["llir"], file) if keep_llir else [],
        "ptx": ptx_lines(made["ptx"], file),
        "sass": sass_lines(made["sass"] or "", file),
    }
    ids: dict[str, str | None] = {"sass": None}
    for kind, lines in texts.items():
        # Triton counts from the kernel's own file; the code pane holds that text from line `first` on
        mapped = [(text, place_of(first + line - 1 for line in lines_of(place))) for text, place in lines]
        ids[kind] = panes.add_machine(graph, number, kind, LANGUAGES[kind], mapped) if lines else None
    return cast(Assembly, {**{key: made[key] for key in FIGURES}, "panes": ids})
