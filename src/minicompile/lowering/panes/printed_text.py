"""Reading what torch prints: FX graphs, loop bodies of the IR, and the code that Inductor writes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# `    add: "f32[2, 16]" = torch.ops...`: how FX writes a node's definition
DEFINITION = re.compile(r"^\s+(\w+)(?:\s*:\s*\"[^\"]*\")?\s*=\s")
# `    x += y;  iadd = x`, `    x[0] = y;  setitem = x`: how it writes one that Python changes in place
IN_PLACE = re.compile(r"^\s+(\w+)[^;]*;  (\w+)(?:: \"[^\"]*\")? = \1\b")
MODULE = re.compile(r"^(\s*)class (\S+)\(torch\.nn\.Module\):")
SIGNATURE = re.compile(r"(\w+)\s*:\s*\"[^\"]*\"")
# `self.get_index(...)` names an index and computes nothing
OPERATION = re.compile(r"^\s+(\w+) = (?:ops\.|self\.(?!get_index\())")
BLOCK = re.compile(r"^\s*def (\w+)\(")
# what a scheduler node depends on, by kind, and the buffers that it makes, of which some are a memory that it changes
DEPENDENCIES = re.compile(r"^\w+\.(?:un)?met_dependencies =\s*\[(.*?)\]$", re.M | re.S)
WHOLE = re.compile(r"StarDep\(name='(\w+)'")
WAITS = re.compile(r"WeakDep\(name='(\w+)', mutating_buf='(\w+)'")
STORED = re.compile(r"ops\.store\w*\('\w+'")
CHANGES = re.compile(r"^ +(\w+)\.mutations = \['(\w+)'", re.M)
# braces, comments and directives: lines that no operation can be written on
STRUCTURE = re.compile(r"^\s*(?:[{}();]*|//.*|#include.*|\#.*)$")


def definition_lines(lines: list[str]) -> dict[str, int]:
    """Line (from 1) on which each node of a printed FX graph is defined; placeholders are in the signature.

    Nodes of a graph within it, a branch of torch.cond say, are named as in `snapshot.with_subgraphs`.
    """
    found: dict[str, int] = {}
    within: list[str] = []  # names of the modules around the line
    prefix = ""
    for number, line in enumerate(lines, 1):
        if match := MODULE.match(line):
            # FX indents the class of a graph within another by four blanks a level
            within[len(match[1]) // 4 :] = [match[2]]
            prefix = "_".join(within[1:]) + "." if within[1:] else ""
        elif line.lstrip().startswith("def forward("):
            for name in SIGNATURE.findall(line):
                found.setdefault(prefix + name, number)
        elif match := DEFINITION.match(line):
            found.setdefault(prefix + match[1], number)
        elif match := IN_PLACE.match(line):
            found.setdefault(prefix + match[2], number)
        elif line.lstrip().startswith("return "):
            found.setdefault(prefix + "output", number)
    return found


def stacked(items: Iterable[tuple[str, str]]) -> tuple[list[str], dict[str, int]]:
    """Texts one below the other with a blank line between, and the line (from 1) at which each named one starts."""
    lines: list[str] = []
    starts: dict[str, int] = {}
    for name, text in items:
        starts[name] = len(lines) + 1
        lines += [*text.rstrip().splitlines(), ""]
    return lines, starts


def helper_lines(code: list[str], first: int, last: int) -> dict[str, range]:
    """The lines, between these, of each function that a kernel's scan combines two values with, by its name."""
    found, name, start = {}, "", 0
    # one line past the kernel, to end a function that is the last in it
    for number in range(first, last + 2):
        line = code[number - 1] if number <= last else ""
        if name and line and not line[0].isspace():
            found[name], name = range(start, number), ""
        if match := re.match(r"def (_triton_helper_fn\w*)\(", line):
            name, start = match[1], number
    return found


def operation_lines(text: str) -> dict[tuple[str, str], int]:
    """Line (from 0) of each (block, operation) in a scheduler node's printed loop body; the main block is `root`."""
    found: dict[tuple[str, str], int] = {}
    block = "root"
    for number, line in enumerate(text.splitlines()):
        if match := BLOCK.match(line):
            block = "root" if match[1] == "body" else match[1]
        elif match := OPERATION.match(line):
            found.setdefault((block, match[1]), number)
    return found


@dataclass
class Dependencies:
    """What a scheduler node depends on as a whole, by what is printed of it, and what it changes in place.

    Attributes:
        whole: buffers that it needs whole: a call's operands, the memory that it changes, as it was before, and what a
            length of a loop follows from.
        loaded: names in a loop's body, those of the buffers that it loads among them.
        waits: (buffer, changed) pairs. The maker of `buffer` reads a memory that this one changes, which is named
            `changed` from then on: it has to wait for that, and reads nothing of `buffer`.
        changes: by the name that a memory has afterwards, the memory.
    """

    whole: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    waits: set[tuple[str, str]] = field(default_factory=set)
    changes: dict[str, str] = field(default_factory=dict)


def dependencies(text: str) -> Dependencies:
    """What a scheduler node depends on as a whole, off its printed text."""
    given = "\n".join(DEPENDENCIES.findall(text))
    _, _, body = text.partition("_loop_body:\n")
    return Dependencies(
        set(WHOLE.findall(given)),
        set(re.findall(r"'(\w+)'", STORED.sub("", body))),
        set(WAITS.findall(given)),
        dict(CHANGES.findall(text)),
    )


def accesses(text: str, kind: str) -> set[tuple[str, str]]:
    """(buffer, index with its lengths) of what a scheduler node's printed text says that it accesses by an index.

    Args:
        text: the node's.
        kind: a pattern of what stands there, `writes` or the dependencies.
    """
    listed = "\n".join(re.findall(rf"^\w+\.{kind} =\s*\[(.*?)\]$", text, re.M | re.S))
    return set(re.findall(r"MemoryDep\('(\w+)', (.*?\})", listed))


def arguments(text: str) -> list[str]:
    """Arguments at the top level of a parenthesis."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        # a shape in a reinterpret_tensor has commas too, which part no arguments
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def parameter_names(kernel: str, language: str) -> list[str]:
    """The names of a kernel's parameters, in order, off its text; `language` is cpp or python."""
    if language == "cpp":
        start = kernel.find('extern "C"')
        parameters = kernel[kernel.find("(", start) + 1 : kernel.find(")", start)]
        return [part.split()[-1].lstrip("*") for part in arguments(parameters)]
    start = kernel.find("@triton_heuristics")  # functions that the kernel calls may stand before it
    match = re.compile(r"^def \w+\((.*?)\)", re.M | re.S).search(kernel, max(start, 0))
    parameters = re.sub(r"#.*", "", match[1]) if match else ""
    return [part.split(":")[0].strip() for part in arguments(parameters)]


def copied_lines(source: list[str], code: list[str], first: int, last: int) -> list[tuple[int, int]]:
    """(line of a source, line of the code) pairs of the functions that a kernel's text has from a file as they stand.

    Args:
        source: lines of the file.
        code: lines of the code, of which the kernel has those from `first` to `last`, counted from 1.
    """
    found = []
    starts = [number for number in range(first, last + 1) if re.match(r"def \w+\(", code[number - 1])]
    for start in starts:
        ends = (n for n in range(start + 1, last + 1) if re.match(r"[@\w]", code[n - 1]))
        text = "\n".join(line.rstrip() for line in code[start - 1 : next(ends, last + 1) - 1]).rstrip().split("\n")
        for number, line in enumerate(source):
            if line.strip() == text[0]:
                indent = len(line) - len(line.lstrip())
                same = [one[indent:].rstrip() for one in source[number : number + len(text)]]
                found += [(number + 1 + step, start + step) for step in range(len(text))] if same == text else []
    return found
