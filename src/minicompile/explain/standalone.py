"""A kernel of a capture as a Python script that runs by itself and checks itself.

The script holds the kernel's definition and its call as Inductor wrote them, makes tensors of the recorded sizes,
strides and dtypes, and holds what the kernel writes against the ATen operations that it was made from, which stand in
the capture as Python. Where these cannot be run again, it checks that nothing is written out of bounds and that the
results are finite.
"""

import re
from importlib import resources
from math import prod

from minicompile.lowering.captured import Call, Capture, Graph, Kernel, Node
from minilab import LabError
from minilab.pages.translations import Translations

Part = str | tuple[int, int]  # text, or lines of the code pane from the first to the last

WORDS = ("redzone", "compared", "differs", "not_compared", "not_finite", "made_eager", "made_redzones", "passed")
DEFINITION = re.compile(r"^\w+ = async_compile\.|^# kernel path:")
TUPLE = r"\(([^()]*)\)"
NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w(]|\s*=[^=])")
UNREPEATABLE = re.compile(r"rand|bernoulli|dropout|philox|seed|higher_order|auto_functionalized|empty")


def script(capture: Capture, kernel: str, *, graph: str | None = None, language: str = "en") -> str:
    """The script of a kernel.

    Args:
        capture: as `minicompile.capture` returns it.
        kernel: its name in the code.
        graph: id of its graph, for a name that forward and backward share; the first that has it by default.
        language: of what the script prints.

    Raises:
        LabError: there is no such kernel; or it is not called; or a size is only known when it runs.
    """
    for each in capture["graphs"]:
        for found in each["kernels"]:
            if found["name"] == kernel and graph in (None, each["id"]):
                code = _code(capture, each)
                parts = script_parts(capture, each, found, language)
                return "".join(
                    part if isinstance(part, str) else "\n".join(code[part[0] - 1 : part[1]]) + "\n" for part in parts
                )
    named = ", ".join(each["name"] for one in capture["graphs"] for each in one["kernels"])
    raise LabError(f"The capture has no kernel {kernel!r}; it has {named or 'none'}.")


def script_parts(capture: Capture, graph: Graph, kernel: Kernel, language: str = "en") -> list[Part]:
    """The script of a kernel in parts, of which those that stand in the code pane are given by their lines.

    Raises:
        LabError: the kernel is not called, or a size is only known when it runs.
    """
    words, code = Translations("minicompile.explain", "standalone", language), _code(capture, graph)
    call = next((each for each in graph["calls"] if each["kernel"] == kernel["name"] and each["line"]), None)
    if call is None:
        raise LabError(f"Kernel {kernel['name']} is never called, so what it takes is not known; choose another.")
    taken = _Taken(graph, call, code)
    eager = _Eager(capture, graph, call, taken)
    sentences = {key: words(f"script.{key}") for key in WORDS}
    device = "cpu" if capture["target"]["kind"] == "cpu" else "cuda"
    title = words("title", kernel=kernel["name"], model=capture["model"]["name"], graph=graph["id"])
    head = next((n for n, line in enumerate(code) if DEFINITION.match(line)), 0)
    return [
        f'"""{title}"""\n\nimport sys\n\n',
        (2, head),
        _settings(capture["environment"]),
        (kernel["first"] - 1, kernel["last"] + 1),
        "\nasync_compile.wait(globals())\n",
        "" if device == "cpu" else f"if not torch.cuda.is_available():\n    sys.exit({words('script.no_gpu')!r})\n",
        "\n\n" + _checks() + "\n\n",
        f"def kernel({', '.join(taken.memory)}):\n",
        "" if device == "cpu" else "    raw_stream0 = get_raw_stream(0)\n",
        f"    {code[(call['line'] or 1) - 1].strip()}\n\n\n",
        eager.text(),
        "MEMORY = {\n" + "".join(f"    {name!r}: {facts},\n" for name, facts in taken.memory.items()) + "}\n",
        f"SENTENCES = {sentences!r}\n",
        f"sys.exit(check(kernel, MEMORY, {device!r}, {'eager' if eager.wanted else None}, {eager.values!r}, "
        f"{sorted(taken.written)!r}, SENTENCES))\n",
    ]


def _settings(environment: dict) -> str:
    """Statements that set what decides what a kernel's C++ means, such as how wide a vector is."""
    module, options = environment["options_of"], environment["options"]
    chosen = [f"{module}.{name} = {value}\n" for name, value in options.items() if name.startswith("cpp.")]
    return "".join([f"import {module}\n\n", *chosen]) if chosen else ""


def _code(capture: Capture, graph: Graph) -> list[str]:
    return next(pane["lines"] for pane in capture["panes"] if pane["id"] == graph["panes"]["code"])


def _checks() -> str:
    """The text of `standalone_checks`, without its docstring and with the imports that it needs."""
    text = resources.files("minicompile.explain").joinpath("standalone_checks.py").read_text(encoding="utf-8")
    return text.split('"""\n', 1)[1].strip()


class _Taken:
    """What a kernel is called with: `memory` by name, what is `filled` and `written`, and which buffers it `holds`."""

    def __init__(self, graph: Graph, call: Call, code: list[str]) -> None:
        self._code, self._line = code, call["line"] or 0
        self._dtypes = {buffer["name"]: buffer["dtype"] for buffer in graph["buffers"]}
        self._sizes = {buffer["name"]: buffer["size"] for buffer in graph["buffers"]}
        inputs = {buffer["name"] for buffer in graph["buffers"] if buffer["input"]}
        nodes = [node for node in graph["scheduler_nodes"] if node["name"] in call["scheduler_nodes"]]
        self.writes = {access["buffer"] for node in nodes for access in node["writes"]}
        reads = {access["buffer"] for node in nodes for access in node["reads"]} - self.writes
        self.memory: dict[str, str] = {}
        self.filled: set[str] = set()
        self.holds: dict[str, list[str]] = {}
        for _, value in call["arguments"]:
            for name in NAME.findall(re.sub(r"^\w+=", "", value or "")):
                if name in self.memory or name in ("raw_stream0", "torch", "None", "True", "False", "c_void_p"):
                    continue
                same = self.holds[name] = self._same(name)
                filled = bool(reads & set(same) or inputs & set(same))
                size, stride, dtype = self._facts(name)
                self.memory[name] = f"({size}, {stride}, {dtype}, {filled})"
                self.filled |= {name} if filled else set()
        to = {value for parameter, value in call["arguments"] if re.match(r"(?:in_)?out_ptr", parameter or "")}
        written = {name for name in self.memory if name in self.writes or name in to}
        others = [node for node in graph["scheduler_nodes"] if node["name"] not in call["scheduler_nodes"]]
        read = {access["buffer"] for node in others for access in node["reads"]}
        # what nobody reads afterwards is scratch memory, in which no promised value stands
        self.written = {name for name in written if name in read or self._used_below(name)} or written

    def _lines(self) -> list[str]:
        """The wrapper's lines above the call, the nearest first."""
        return self._code[self._line - 2 :: -1]

    def _used_below(self, name: str) -> bool:
        """Whether the wrapper uses a tensor after the call for more than its memory."""
        below = self._code[self._line :]
        end = next((n for n, line in enumerate(below) if line.strip().startswith("return ")), len(below) - 1)
        used = [line for line in below[: end + 1] if not re.search(r"^\s*del |# reuse", line)]
        return any(re.search(rf"\b{name}\b", line) for line in used)

    def _same(self, name: str) -> list[str]:
        """The names that this memory had, the latest first: what `buf3 = buf1; del buf1  # reuse` says."""
        names = [name]
        for line in self._lines():
            if match := re.match(rf"\s*{names[-1]} = (?:reinterpret_tensor\()?(\w+)\b[^#]*# reuse", line):
                names.append(match[1])
        return names

    def _facts(self, name: str) -> tuple[str, str, str]:
        """Size, stride and dtype, as Python.

        Raises:
            LabError: they are not written down as numbers.
        """
        dtype = f"torch.{self._dtypes.get(name)}"
        shapes = (
            rf"\s*{name} = empty_strided_\w+\({TUPLE}, {TUPLE}, ([\w.]+)\)",
            rf"\s*{name} = reinterpret_tensor\(\w+, {TUPLE}, {TUPLE}, ",
            rf"\s*assert_size_stride\({name}, {TUPLE}, {TUPLE}",
        )
        found = [match for line in self._lines() for shape in shapes if (match := re.match(shape, line))]
        if found:
            size, stride = f"({found[0][1]})", f"({found[0][2]})"
            dtype = found[0][3] if found[0].re.groups == 3 else dtype
        elif len(self._same(name)) > 1:
            size, stride, other = self._facts(self._same(name)[1])
            dtype = dtype if name in self._dtypes else other
        else:
            lengths = self._sizes.get(name) or ["unknown"]
            known = [length if isinstance(length, int) else 0 for length in lengths]
            steps = [prod(known[place + 1 :]) for place in range(len(known))]
            size, stride = (f"({''.join(f'{n}, ' for n in numbers)})" for numbers in (lengths, steps))
        if re.search(r"[A-Za-z]", size + stride) or dtype == "torch.None":
            raise LabError(
                f"The size, stride or dtype of {name} is only known when the model runs, so no script can make it; "
                f"capture the model with sizes that do not vary."
            )
        return size, stride, dtype


class _Eager:
    """The ATen operations of a kernel as a function from what it is given, `values`, to what it should write."""

    def __init__(self, capture: Capture, graph: Graph, call: Call, taken: _Taken) -> None:
        self._lines = next(pane["lines"] for pane in capture["panes"] if pane["id"] == graph["panes"]["aten"])
        self._nodes: dict[str, Node] = {node["name"]: node for node in graph["nodes"]}
        buffers = {buffer["name"]: buffer for buffer in graph["buffers"]}
        self.values: dict[str, str] = {}
        for name, same in taken.holds.items():
            for each in same if name in taken.filled else ():
                buffer = buffers.get(each)
                node = each if each in self._nodes else buffer and buffer["node"]
                if node and buffer and each not in taken.writes and buffer["size"] == self._nodes[node]["size"]:
                    self.values[node] = name
        self.wanted: dict[str, str] = {}
        needed: set[str] = set()
        for name in sorted(taken.written):
            node = buffers[name]["node"] if name in buffers else None
            found = self._needed(node) if node and node not in self.values else None
            if node and found:
                self.wanted[name] = node
                needed |= found
        self._order = [name for name in self._nodes if name in needed]
        used = {one for name in self._order for one in self._nodes[name]["inputs"]}
        self.values = {node: name for node, name in self.values.items() if node in used}

    def _needed(self, node: str) -> set[str] | None:
        """The operations from what is given to this one; None where one of them cannot be run again."""
        found: set[str] = set()
        waiting = [node]
        while waiting:
            name = waiting.pop()
            if name in found or name in self.values:
                continue
            one = self._nodes[name]
            if one["op"] != "call_function" or UNREPEATABLE.search(one["target"]) or not self._statement(name):
                return None
            found.add(name)
            waiting += one["inputs"]
        return found

    def _statement(self, name: str) -> str | None:
        line = self._lines[(self._nodes[name]["line"] or 1) - 1].strip()
        if not re.match(rf"{name}(?::.*?)? = ", line):
            return None
        line = re.sub(r";\s+[\w =]+= None.*$", "", line)
        return re.sub(
            r"= (.*)$", lambda match: "= " + re.sub(r"\btorch\.(\w*float\w*)\b", r"kept(torch.\1)", match[1]), line
        )

    def text(self) -> str:
        """The function as Python; nothing where there is none."""
        if not self.wanted:
            return ""
        body = "".join(f"    {self._statement(name)}\n" for name in self._order)
        returned = ", ".join(f"{name!r}: {node}" for name, node in self.wanted.items())
        return f"def eager({', '.join(['kept', *self.values])}):\n{body}    return {{{returned}}}\n\n\n"
