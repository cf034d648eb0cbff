"""What the compiler itself printed of a graph, read as text: its kernels, its wrapper, its ATen graph and its IR."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from second import cpp
from second.memory import Called, Memory, Ran, run

NAME = re.compile(r"\b[A-Za-z_]\w*\b")
KERNEL = re.compile(r"^(\w+) = async_compile\.(\w+)\(")
CALLED = re.compile(r"^\s+(?:\w+ = )?(\w+?)(?:\.run)?\((.*?)(?:, stream=\w+)?\)$")
ASSIGNED = re.compile(
    r"^\s*(?:(?:const |auto |float |double |bool |int\w* |uint\w* |at::\S+ )*)"
    r"(\w+)((?:, ?\w*)*)(?:: [\w.]+)? = (.*?);?$"
)
STORED = re.compile(  # Triton's forms, then C++'s
    r"tl\.make_tensor_descriptor\((\w+),.*?\)\.store\(|tl\.(?:store|atomic_\w+)\((\w+) \+ |\.store\((\w+) \+ "
    r"|transpose_mxn<.*, (\w+ptr\d*|local_\w+) \+ |(?:^|\s)(\w+)\[.*?\] [-+*|&]?= "
    r"|atomic_\w+(?:<[^>]*>)?\(&?(\w+)"
)
POINTERS = re.compile(r"\b((?:in_out|in|out|ws)_ptr\d*)\b")
BUFFER = re.compile(r"\b(?:buf\d+|arg\d+_\d+|primals_\w+|tangents_\w+)\b")
NODE = re.compile(
    r"^\s+(\w+)(?:: \"(\w+)\[([^\]]*)\](?:\[[^\]]*\])?\S*\")? = (?:torch\.ops\.)?([\w.<>]+)\((.*?)\)(?:;.*)?$"
)
RESULT = re.compile(r"^\s+(\w+)(?:: \"(\w+)\[([^\]]*)\](?:\[[^\]]*\])?\S*\")? = (\w+)\[\d+\](?:;.*)?$")
INPUT = re.compile(r"(\w+): \"(\w+)\[([^\]]*)\]")
ITEM_BYTES = {
    "f64": 8,
    "i64": 8,
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "i16": 2,
    "i8": 1,
    "u8": 1,
    "b8": 1,
}


@dataclass
class Statement:
    """A line of a kernel's body: what it assigns or stores to, and the statements whose values it may use."""

    number: int
    text: str
    target: str | None
    pointer: str | None = None
    before: set[int] = field(default_factory=set)  # numbers of lines, direct and not


@dataclass
class KernelText:
    """A kernel as the wrapper has it; lines are numbered as in the whole code."""

    name: str
    language: str
    lines: dict[int, str]

    @cached_property
    def body(self) -> dict[int, str]:
        """Its lines after the signature, comments and assertions aside; helper functions are not among them."""
        numbers = list(self.lines)
        if self.language == "cpp":
            start = next((one for one in numbers if 'extern "C"' in self.lines[one]), numbers[0])
            start = next((one for one in numbers if one >= start and self.lines[one].strip() == "{"), start)
        else:
            start = max((one for one in numbers if self.lines[one].startswith("def ")), default=numbers[0])
        skipped = re.compile(r"^\s*(#|//|tl\.device_assert|TORCH_CHECK|AOTI_TORCH_CHECK|$)")
        return {one: self.lines[one] for one in numbers if one > start and not skipped.match(self.lines[one])}

    @cached_property
    def text(self) -> str:
        """All lines, helpers included."""
        return "\n".join(self.lines.values())

    @cached_property
    def parameters(self) -> list[str]:
        """The names of its parameters, in order."""
        if self.language == "cpp":
            signature = re.search(r'extern "C"[^(]*\((.*?)\)', self.text, re.S)
            return [one.split()[-1].lstrip("*&") for one in signature[1].split(",")] if signature else []
        signature = re.findall(r"^def \w+\((.*?)\):", self.text, re.M)
        return [one.split(":")[0].strip() for one in signature[-1].split(",")] if signature else []

    @cached_property
    def aliases(self) -> dict[str, str]:
        """By another name that the text gives a parameter, its own."""
        return cpp.aliases(self.lines.values()) if self.language == "cpp" else {}

    @cached_property
    def statements(self) -> list[Statement]:
        """Its assignments and stores, each with all lines whose values may reach it."""
        made: list[Statement] = []
        by_name: dict[str, list[Statement]] = {}
        functions = cpp.functions(self.body) if self.language == "cpp" else {}
        ended = {last: (first, name) for first, (name, last) in functions.items()}

        def add(one: Statement, value: str, others: Iterable[str] = ()) -> None:
            for name in set(NAME.findall(value)):
                repeated = name.startswith(("tmp_acc", "_tmp", "tmpbuf")) or "ptr" in name or "local_buffer" in name
                some = by_name.get(name, [])
                for earlier in some if repeated else some[-1:]:
                    one.before |= {earlier.number} | earlier.before
            made.append(one)
            for name in {one.target, one.pointer, *others} - {None}:
                by_name.setdefault(name, []).append(one)

        for number, text in self.body.items():
            pointer = stored_to(text)
            match, into = ASSIGNED.match(text), cpp.INTO.match(text) if self.language == "cpp" else None
            if self.language == "cpp" and (fresh := cpp.FRESH.match(text)):
                by_name.pop(fresh[1] or fresh[2], None)
            if number in ended:  # what an inline function gives follows from all its lines
                first, name = ended[number]
                whole = "\n".join(line for place, line in self.body.items() if first <= place <= number)
                add(Statement(first, whole, name), whole.split("=", 1)[1])
            elif number in functions:
                continue
            elif into and not pointer:
                add(Statement(number, text, into[1] or into[4]), into[2] or into[3])
            elif match and not pointer:
                add(Statement(number, text, match[1]), match[3], NAME.findall(match[2]))
            elif pointer:
                add(Statement(number, text, None, pointer), text)
        return made

    @cached_property
    def loaded(self) -> dict[str, list[int]]:
        """The lines that read through each pointer."""
        found: dict[str, list[int]] = {}
        for number, text in self.body.items():
            pointer = stored_to(text)
            read = text if "atomic" not in text else ""
            if pointer and "=" in text and self.language == "cpp" and "store(" not in text:
                read = re.split(r" \+?= ", text, maxsplit=1)[-1]  # an addition to memory is told where it is written
            elif pointer:
                read = text.split(f", {pointer} +")[0] if "transpose_mxn" in text else ""
            for name in set(POINTERS.findall(read)):
                if re.search(
                    rf"descriptor\({name}\b|load\w*\({name}\b|\b{name}\[|\({name} \+|bucketize\w*\(.*\b{name}\b", read
                ):
                    found.setdefault(name, []).append(number)
        return found

    @cached_property
    def stored(self) -> dict[str, list[int]]:
        """The lines that write through each pointer."""
        found: dict[str, list[int]] = {}
        for number, text in self.body.items():
            if (pointer := stored_to(text)) and POINTERS.fullmatch(pointer):
                found.setdefault(pointer, []).append(number)
        return found


def stored_to(text: str) -> str | None:
    """The pointer through which a line writes."""
    match = STORED.search(text)
    name = next((one for one in match.groups() if one), None) if match else None
    return name if name and ("ptr" in name or name.startswith("local_buffer")) else None


@dataclass
class CallText:
    """A call in the wrapper."""

    line: int
    kernel: str
    arguments: list[str]


@dataclass
class Node:
    """A node of the ATen graph as torch prints it."""

    name: str
    target: str
    dtype: str | None
    size: list[int] | None
    operands: list[str]
    arguments: str

    @property
    def base(self) -> str:
        """Its operation's name without packet and overload."""
        parts = self.target.split(".")
        return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims") else parts[0 if len(parts) == 1 else 1]

    @property
    def elements(self) -> int | None:
        """How many elements it has."""
        return None if self.size is None else math.prod(self.size)


def _numbers(text: str) -> list[int] | None:
    parts = [one.strip() for one in text.split(",") if one.strip()]
    return [int(one) for one in parts] if all(one.isdigit() for one in parts) else None


class GraphTexts:
    """The texts of one graph.

    Args:
        code: the generated code, kernels and wrapper.
        aten: the ATen graph.
        scheduled: Inductor's IR as its scheduler prints it, before fusion.
        fused: the same after fusion, in which loops are merged that need not be apart.
    """

    def __init__(self, code: str, aten: str, scheduled: str, fused: str = "") -> None:
        self.code, self.lines = code, code.split("\n")
        self.calls_of_all: int | None = None  # how many calls of kernels the wrappers of the whole capture have
        self.kernels = self._kernels()
        self.nodes = self._nodes(aten)
        self.operations, self.merged = self._operations(scheduled), self._operations(fused)
        layouts = re.findall(r"(buf\d+)\.layout = \w+\([^)]*?(torch\.\w+), size=\[([^\]]*)\]", scheduled)
        self.sizes = {name: _numbers(size) for name, _, size in layouts}
        self.dtypes = {name: dtype for name, dtype, _ in layouts}
        if any(re.match(r"def (?!call\b)\w+_graph_\w*\(|def subgraph|def repeated", text) for text in self.wrapper):
            self.sizes, self.dtypes, self.operations = {}, {}, {}  # inner graphs print the same names again
        changed = re.findall(r"(buf\d+)\.mutations = \[([^\]]*)\]", scheduled)
        self.changes = {name: re.findall(r"'(\w+)'", some) for name, some in changed}

    def _kernels(self) -> dict[str, KernelText]:
        made, name, kind, lines = {}, None, "", {}
        for number, text in enumerate(self.lines, 1):
            if match := KERNEL.match(text):
                name, kind, lines = match[1], match[2], {}
            elif name and text.startswith("'''"):
                made[name] = KernelText(name, "triton" if kind == "triton" else "cpp", lines)
                name = None
            elif name:
                lines[number] = text
        return made

    def _nodes(self, aten: str) -> dict[str, Node]:
        made: dict[str, Node] = {}
        outer, within = made, None
        for text in aten.split("\n"):
            if match := re.match(r"\s*class (\w+)\(torch", text):  # graphs within this one have names of their own
                within = f"{match[1]}." if within is not None else ""
                made = outer if not within else {}
            if text.lstrip().startswith("def forward("):
                for name, dtype, size in INPUT.findall(text):
                    made[name] = Node(name, "placeholder", dtype, _numbers(size), [], "")
            elif match := RESULT.match(text):
                name, dtype, size, operand = match.groups()
                sized = _numbers(size) if size is not None else None
                made[name] = Node(name, "operator.getitem", dtype, sized, [operand] if operand in made else [], operand)
            elif match := NODE.match(text):
                name, dtype, size, target, arguments = match.groups()
                operands = [one for one in NAME.findall(arguments) if one in made]
                sized = _numbers(size) if size is not None else None
                made[name] = Node(name, target, dtype, sized, operands, arguments)
            if within:
                outer |= {within + name: node for name, node in made.items()}
        return outer

    def _operations(self, scheduled: str) -> dict[str, dict[str, set[str]]]:
        """By operation of the scheduler, the dependencies that it prints, each whole."""
        made: dict[str, dict[str, set[str]]] = {}
        for part in re.split(r"\n(?=op\d+(?:_op\d+)*: )", "\n" + scheduled):
            for name in dict.fromkeys(re.findall(r"^(op\d+)\.(?:writes|snodes|unmet)", part, re.M)):
                written = re.search(rf"^{name}\.writes =(.*?)(?=^op\d+\.)", part, re.M | re.S)
                read = re.search(
                    rf"^{name}\.unmet_dependencies =(.*?)(?=^op\d+\.(?!met_))", part, re.M | re.S
                )  # and met ones
                deps = re.compile(r"(?:Memory|Star|Weak)Dep\(.*?(?:\}|mode='?\w+'?|is_fake=\w+)[^)]*\)")
                loops = re.search(rf"^{name}\.group\.iteration = (.*)$", part, re.M)
                made[name] = {
                    "loops": {loops[1]} if loops else set(),
                    "writes": set(deps.findall(written[1])) if written else set(),
                    "reads": set(deps.findall(read[1])) if read else set(),
                }
        return made

    @cached_property
    def calls(self) -> dict[int, CallText]:
        """The calls of kernels, by the wrapper's line."""
        made = {}
        for number, text in enumerate(self.lines, 1):
            match = CALLED.match(text)
            if match and match[1] in self.kernels and not text.lstrip().startswith("#"):
                made[number] = CallText(number, match[1], _split(match[2]))
        return made

    @cached_property
    def ran(self) -> Ran | None:
        """What running the wrapper with recorders shows; None where it could not be run so."""
        return run(self.code)

    def met(self, names: list[str]) -> set[str]:
        """Buffers that operations read of those that are there before anything runs."""
        return {
            name for each in names for dep in self.operations[each]["reads"]
            for name in re.findall(r"Dep\((?:name=)?'(\w+)'", dep)
        }  # fmt: skip

    def constant(self, name: str) -> bool:
        """Whether a node follows from no input, so that it may be in the text as an index or a number."""
        node = self.nodes.get(name)
        return node is None or (node.target != "placeholder" and all(self.constant(one) for one in node.operands))

    def place(self, name: str) -> Memory | None:
        """The memory that a name is, or that it changes in place."""
        seen = {name}
        while self.ran and name not in self.ran.memory and (more := set(self.changes.get(name, [])) - seen):
            name = min(more)
            seen.add(name)
        return self.ran.memory.get(name) if self.ran else None

    def written(self, called: Called) -> list[Memory]:
        """The memory that a call of the wrapper writes."""
        kernel = self.kernels.get(called.name)
        if kernel is None:  # an operation in place is given what it changes
            changed = called.given[:1] if re.search(r"_(?:\.\w+)?$", called.name) else []
            return [*called.into, *(one for one in changed if one is not None)]
        given = dict(zip(kernel.parameters, called.given, strict=False))
        if not any(POINTERS.fullmatch(one) for one in kernel.parameters):  # the user's own
            named = set(re.findall(r"tl\.(?:store|atomic_\w+)\((\w+)", kernel.text))
            written = named if named <= given.keys() else given.keys()  # through another name any may be
            return [one for name in written if (one := given[name]) is not None]
        return [one for pointer in kernel.stored if (one := given.get(pointer)) is not None]

    def maker(self, place: Memory, line: int) -> Called | None:
        """The last call before a line that writes to a memory, or to all of its allocation."""
        calls = [one for one in self.ran.calls if one.line < line] if self.ran else []
        made = [one for one in calls if any(map(place.may_meet, self.written(one)))]
        return made[-1] if made else None

    @cached_property
    def wrapper(self) -> list[str]:
        """The lines that are no kernel's."""
        inside = {number for kernel in self.kernels.values() for number in kernel.lines}
        return [text for number, text in enumerate(self.lines, 1) if number not in inside]

    @cached_property
    def taken_over(self) -> dict[str, str]:
        """Of a buffer that has an earlier one's memory, that earlier one's name."""
        taken = r"^\s+(\w*buf\d+) = (?:reinterpret_tensor\()?(\w+)\b.*; del \2\b"
        return dict(re.findall(taken, "\n".join(self.wrapper), re.M))

    @cached_property
    def returned(self) -> set[str]:
        """What the graph's functions return, by the names that stand there."""
        found = set()
        for text in self.wrapper:
            if match := re.match(r"\s+return \((.*)\)$", text):
                found |= set(NAME.findall(match[1]))
        return found

    def memory(self, name: str) -> set[str]:
        """All names of the memory in which a buffer is: of what it changes, and of what has or had that memory."""
        names, new = set(), {name}
        given = [(one, other) for one, other in self.taken_over.items()]
        given += [(one, other) for one, some in self.changes.items() for other in some]
        while new:
            names |= new
            new = {b for a, b in given if a in names} | {a for a, b in given if b in names}
            new -= names
        return names

    def alias_of_view(self, name: str) -> set[str]:
        """Names that the wrapper gives to other views of a buffer."""
        text = "\n".join(self.wrapper)
        found = set(re.findall(rf"^\s+(\w+) = reinterpret_tensor\({name}\b", text, re.M))
        return found | set(re.findall(rf"^\s+{name} = reinterpret_tensor\((\w+)", text, re.M))


def _split(text: str) -> list[str]:
    """Arguments at the top level of a call."""
    parts, depth, last = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(last.strip())
            last = ""
        else:
            last += letter
    return [*parts, last.strip()] if last.strip() else parts
