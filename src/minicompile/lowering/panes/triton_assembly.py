"""From a Triton kernel's lines to TTIR, TTGIR, LLVM IR, PTX and SASS: texts without debug information, and line maps.

Triton writes locations into its MLIR (`loc(#loc12)`), LLVM IR (`!dbg !12`), PTX (`.loc 1 34 12`) and, through ptxas,
into the machine code, where `nvdisasm --print-line-info-inline` shows them. A location within a helper is followed to
the line of the kernel that calls it.
"""

import functools
import re
from pathlib import Path
from typing import cast

from minicompile.lowering.captured import Assembly, Graph, Kernel
from minicompile.lowering.panes.listings import fitting
from minicompile.lowering.panes.panes import Mapped, Panes

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
PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
SASS_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
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

    def line_of(body: str, depth: int = 0) -> int | None:
        if match := in_file.search(body):
            return int(match[1])
        # more steps than there are locations: they refer to each other in a circle
        if depth > len(bodies):
            return None
        # of `callsite(#helper at #caller)` the caller is the kernel's line; of a fused location, any
        names = re.findall(r"#(loc\d*)", body)
        found = (line_of(bodies.get(name, ""), depth + 1) for name in reversed(names))
        return next((line for line in found if line), None)

    named = functools.cache(lambda name: line_of(bodies.get(name, "")))  # several lines are at one place
    lines: Mapped = []
    for line in lines_of_text:
        if "loc" not in line:
            lines.append((line, None))
        elif not LOCATION.match(line.strip()):
            match = USE.search(line)
            place = named(match["name"]) if match and match["name"] else None
            lines.append((PLACES.sub("", USE.sub("", line)), place))
    return lines


def llvm_lines(text: str, file: str) -> Mapped:
    """LLVM IR without its metadata; a place within a helper is followed to the line that it was inlined into."""
    lines_of_text = text.splitlines()
    metadata = {
        match[1]: match[2] for line in lines_of_text if line.startswith("!") and (match := METADATA.match(line))
    }

    def named(body: str, field: str) -> str | None:
        match = re.search(rf"\b{field}: !(\d+)", body)
        return metadata.get(match[1]) if match else None

    @functools.cache  # several instructions are at one place
    def line_of(body: str | None) -> int | None:
        while body:
            scope = named(body, "scope")
            source = named(scope, "file") if scope else None
            number = re.search(r"\bline: (\d+)", body)
            if source and number and f'filename: "{file}"' in source:
                return int(number[1])
            body = named(body, "inlinedAt")
        return None

    lines: Mapped = []
    for line in lines_of_text:
        if line.startswith(("!", "; ModuleID", "source_filename")):
            continue
        if "!dbg" not in line:
            lines.append((line, None))
            continue
        place = PLACED.search(line)
        # a `define` names the function's own record, whose line is no place of an instruction
        found = line_of(metadata.get(place[1])) if place and not line.startswith("define") else None
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
    callers: dict[tuple[str, str], tuple[str, str]] = {}
    current: int | None = None
    lines: Mapped = []
    for line in lines_of_text:
        if ".loc" in line and (match := PTX_LOC.match(line)):
            place = (match[1], match[2])
            if match[3]:
                callers[place] = (match[3], match[4])
            # a place in a helper's file would be told as a line of the kernel: follow it to the caller in the kernel
            seen = set()
            while files.get(place[0]) != file and place in callers and place not in seen:
                seen.add(place)
                place = callers[place]
            current = int(place[1]) if files.get(place[0]) == file else None
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
    """The instructions of `nvdisasm -gi`; of a chain of inlined places the kernel's own counts."""
    current: int | None = None
    lines: Mapped = []
    for line in text.splitlines():
        if match := SASS_LINE.match(line):
            if Path(match[1]).name == file:
                current = int(match[2])
        elif SASS_CODE.match(line):
            lines.append((line.strip(), None if line.strip().startswith(".L") else current))
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
        mapped = [(text, first + line - 1 if line else None) for text, line in lines]
        ids[kind] = panes.add_machine(graph, number, kind, LANGUAGES[kind], mapped) if lines else None
    return cast(Assembly, {**{key: made[key] for key in FIGURES}, "panes": ids})
