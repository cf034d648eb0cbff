"""A kernel line by line, each under a comment that says what it is.

Of a line that Inductor wrote for an operation: the ATen operation and the source line it comes from, exact by the
capture's links. Of all lines: what their text shows (annotation_patterns). A line with neither is called structure,
where the capture links lines one by one.
"""

import re

from minicompile.explain.annotation.patterns import SECTIONS, said
from minicompile.explain.annotation.pointers import pointer_accesses
from minicompile.explain.annotation.results import operation_record
from minicompile.explain.annotation.view import READS, WRITES, KernelView

COMMENT = {"cpp": "//", "python": "#"}
COMPUTES = re.compile(r"\btmp\d+\b|\barg\d+_\d+\b")  # Inductor's names for values
BRACE = re.compile(r"^\s*(?:[{}]+[;)]*|[;)])$")


def commented(view: KernelView) -> list[str]:
    """The kernel's lines, each preceded by its comment; lone brackets have theirs behind them, blank lines none."""
    mark, ends = COMMENT[view.kernel["language"]], _ends(view)
    found = []
    for number, text in view.lines:
        if not text.strip():
            found.append(text)
        elif BRACE.match(text):
            found.append(f"{text}  {mark} {number}" + (f": {ends[number]}" if number in ends else ""))
        else:
            indent = text[: len(text) - len(text.lstrip())]
            found += [f"{indent}{mark} {number}: {_comment(view, number, text)}", text]
    return found


def _comment(view: KernelView, number: int, text: str) -> str:
    language = view.kernel["language"]
    origins = _origins(view, number, text)
    variable = said(text, "variables", language, view.reader)
    if variable and origins:
        return view.words("lines.variable", variable=variable, origins=", ".join(origins))
    seen = [_parameters(view, number, text), *(said(text, section, language, view.reader) for section in SECTIONS)]
    told = dict.fromkeys([*origins, *(part for part in seen if part)])
    if told:
        return "; ".join(told)
    structure = view.kernel["granularity"] == "operation" and not COMPUTES.search(text)
    return view.words("lines.operation" if structure else "lines.computes" if COMPUTES.search(text) else "lines.kernel")


def _origins(view: KernelView, number: int, text: str) -> list[str]:
    """ATen operation, source line and memory of each operation that a line was written for."""
    found: dict[str, list[str]] = {}
    by_values = _by_values(view, number)
    for origin in by_values:
        found[origin] = []
    kinds = READS | WRITES if pointer_accesses(text, view) else set()
    for operation in view.operations.get(number, []):
        if operation.producer not in view.nodes:
            continue
        # where the lines were run, a line is what its values are, whoever it was written for
        origin = _named(view, operation.producer) if view.values is None else next(iter(by_values), "")
        memory = found.setdefault(origin, [])
        access = view.access(operation) if operation.operation in kinds else None
        if access:
            way = "reads" if operation.operation in READS else "writes"
            memory.append(view.words(f"lines.{way}", buffer=access[0], index=access[1]))
        memory += [view.words("lines.searches", buffer=buffer) for buffer in view.searched(operation)]
    return [
        ": ".join(filter(None, (origin, ", ".join(dict.fromkeys(memory)))))
        for origin, memory in found.items() if origin or memory
    ]  # fmt: skip


def _named(view: KernelView, name: str) -> str:
    """An ATen node by its target and name, with the line of the source that it comes from."""
    node = operation_record(view, view.nodes[name])
    origin = node["name"] if node["target"] == node["name"] else f"{node['target']} ({node['name']})"
    return origin + (f", {node['source']}" if node["source"] else "")


def _by_values(view: KernelView, number: int) -> list[str]:
    """The ATen node whose values a line has, or of which it has a part."""
    found = []
    for one in view.values["lines"] if view.values is not None else ():
        if one["line"] == number and one["nodes"][0] in view.nodes:
            whole = _named(view, one["nodes"][0])
            found.append(view.words(f"lines.parts.{one['part']}", whole=whole) if one["part"] else whole)
    return list(dict.fromkeys(found))


def _parameters(view: KernelView, number: int, text: str) -> str | None:
    """What the wrapper hands to the parameters whose declarations a C++ signature's line holds."""
    # the body opens on a line of its own; a kernel without such a line has its signature on the first
    body = next((line for line, code in view.lines if code.startswith("{")), view.kernel["first"])
    if view.kernel["language"] != "cpp" or number > body:
        return None
    names = [name for name in view.parameters if re.search(rf"\b{re.escape(name)}\b", text)]
    said_of_each = [view.words("lines.parameter", name=name, value=view.parameters[name]) for name in names]
    return ", ".join(said_of_each) or None


def _ends(view: KernelView) -> dict[int, str]:
    """By line of a lone closing brace, what it ends: a loop, the kernel."""
    found: dict[int, str] = {}
    opened: list = []
    header = None
    for number, text in view.lines:
        stripped = text.strip()
        if BRACE.match(text):
            for character in stripped:
                if character == "{":
                    opened.append(header)
                elif character == "}" and opened and (what := opened.pop()):
                    found[number] = what
            header = None
        elif match := re.match(r"for\s?\(\w+ (\w+)", stripped):
            header = view.words("lines.loop", variable=match[1])
        elif stripped.startswith("#pragma omp parallel"):
            header = view.words("lines.threads")
        elif stripped.startswith("#pragma omp single"):
            header = view.words("lines.one_thread")
    return found
