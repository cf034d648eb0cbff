"""Judges a page's sentences by the texts of its graph: each form by a rule of its own; what has no rule is unread."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from second import lines
from second.memory import Called, Memory
from second.operations import MADE, SCANS, SEVERAL, SIGNS, may_be, operation_of, unnamed
from second.reasons import reason
from second.sentences import Sentence, sentences
from second.texts import BUFFER, ITEM_BYTES, CallText, GraphTexts, KernelText, Node

CODE = re.compile(r"`([^`]+)`")
VIEWS = {"view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice", "select", "alias"}
VIEWS |= {
    "as_strided",
    "detach",
    "split",
    "split_with_sizes",
    "unfold",
    "diagonal",
    "unbind",
    "getitem",
    "_unsafe_view",
}
VIEWS |= {"rev", "flip", "broadcast_in_dim", "view_of", "real", "view_as_real", "convert_element_type", "_to_copy"}
SAME_ORDER = {"clone", "copy_", "view", "reshape", "squeeze", "unsqueeze", "alias", "detach", "getitem"}
INNER = {"cond", "while_loop", "invoke_subgraph", "map_impl"}
LOOKS_UP = {"index", "gather", "embedding", "index_select"}
ELSEWHERE = {"written to memory", "computed by a library's kernel", "begun by a library's kernel and finished here"}
ARITHMETIC = re.compile(r"tmp\w+ [-+*/] tmp|(?:libdevice|tl_math)\.\w+\(|\.(?:exp|log|tanh|cos|sin|sqrt|erf)\(")
REDUCES = re.compile(
    r"tl\.(?:sum|max|min|reduce|associative_scan)\(|triton_helpers\.(?:max2|min2|any|prod|welford"
    r"|sort\w*|\w*index|promote_to)\(|vec_reduce_all"
)
POSITION = re.compile(  # of what is largest or least; a row of a few elements is compared one by one
    r"_with_index|helpers\.\w*index|arg(?:max|min)|IndexValue"
    r"|= decltype\(\w+\)::blendv\(\w+, \w+, \w+\.template cast<int64_t"
    r"|(?s:(tmp\d+) = tl\.full\([^)]*\], \d+, tl\.int64\).*= tl\.where\(\w+, \w+, \1\))"
)
REDUCED = ("sum", "mean", "amax", "amin", "prod", "any", "argmax", "argmin", "var_mean", "var")
BY_TYPE = {
    "sum": r"sum|\+|welford",
    "max": r"max",
    "min": r"min",
    "prod": r"prod|\*",
    "any": r"any|\|",
    "argmax": r"max",
    "argmin": r"min",
    "welford_reduce": r"welford|sum",
    "welford_combine": r"welford",
    "online_softmax_reduce": r"online_softmax|exp",
    "xor_sum": r"xor|\^",
    "dot": r"dot",
}


@dataclass(frozen=True)
class Finding:
    """What became of a sentence: `held`, `false` with its cause, or `unread`."""

    sentence: Sentence
    verdict: str
    cause: str = ""


class Page:
    """A page about one call, and the texts that it is held against."""

    def __init__(self, text: str, texts: GraphTexts) -> None:
        self.text, self.texts = text, texts
        self.sentences = sentences(text)
        match = re.search(r"It is called on line (\d+) of", text)
        self.call: CallText | None = texts.calls.get(int(match[1])) if match else None
        named = re.match(r"# `(\w+)`, explained", text)
        self.kernel: KernelText | None = texts.kernels.get(named[1]) if named else None
        rows = [_cells(one.text) for one in self.sentences if one.section == 1 and one.kind == "row"]
        self.rows = {cells[1]: cells for cells in rows if len(cells) == 5}  # by node: operation, node, result, ...
        self.absent = {
            cells[1]: cells
            for one in self.sentences
            if one.section == 5 and one.kind == "row" and len(cells := _cells(one.text)) == 5
        }
        self.users_own = "a Triton kernel of the user's own, and Inductor only calls it" in text
        self.doubted = "## 1." not in text

    @property
    def operations(self) -> set[str]:
        """The operations that section 1 lists."""
        return {_base(cells[0]) for cells in self.rows.values()}

    def given(self, pointer: str) -> str | None:
        """What the wrapper passes for a parameter."""
        pointer = self.kernel.aliases.get(pointer, pointer) if self.kernel else pointer
        if not self.kernel or not self.call or pointer not in self.kernel.parameters:
            return None
        place = self.kernel.parameters.index(pointer)
        return self.call.arguments[place] if place < len(self.call.arguments) else None

    def passed(self, pointer: str) -> Memory | None:
        """The memory that a parameter has in this call, where the wrapper was run."""
        ran, call = self.texts.ran, self.call
        pointer = self.kernel.aliases.get(pointer, pointer) if self.kernel else pointer
        if not ran or not self.kernel or not call or pointer not in self.kernel.parameters:
            return None
        here = [one for one in ran.calls if one.line == call.line and one.name == call.kernel]
        place = self.kernel.parameters.index(pointer)
        return here[0].given[place] if len(here) == 1 and place < len(here[0].given) else None

    def made(self, pointer: str, name: str, line: int | None = None) -> str | None:
        """Whether who wrote last what a parameter is given can have made a node, or what it is a view of.

        Args:
            line: at which it is read; none takes the first at which the kernel does.
        """
        place, node = self.passed(pointer), self.texts.nodes.get(self._origin_of(name))
        if place is None or node is None or not self.call:
            return None
        written, read = (touched.get(pointer, []) for touched in (self.kernel.stored, self.kernel.loaded))
        if written and read and written[0] < (line or read[0]):  # an earlier loop of the kernel's own
            return "" if node.base in SIGNS and not self._no_line(node.base) else None
        maker = self.texts.maker(place, self.call.line)
        if maker is None:
            return "" if node.target == "placeholder" else None
        if node.target == "placeholder":
            mine = self.texts.place(node.name)
            copied = mine is not None and any(
                one is not None and one.allocation == mine.allocation for one in maker.given
            )
            return None if copied else f"{maker.name} on line {maker.line} has written {pointer} before"
        kernel = self.texts.kernels.get(maker.name)
        if node.base not in SIGNS or (kernel is None and node.base not in maker.name):
            return None
        if node.base.startswith(
            ("gather", "index", "embedding", "triton_kernel")
        ):  # which this kernel may do itself as it loads
            return None
        if kernel is None or any(may_be(node.base, text) for text in kernel.text.split("\n") if "_meta=" not in text):
            return ""
        if name != node.name and self._handed_on(maker, node.base):
            return None
        parts = {one.offset for one in self.texts.written(maker) if one.allocation == place.allocation}
        if node.base == "cat" and len(parts) > 1:  # each piece is where it belongs as soon as it is stored
            return ""
        if node.base in SEVERAL and not ARITHMETIC.search(kernel.text):  # a copy of one of a library's results
            return None
        return f"{maker.name}, which made it on line {maker.line}, has no line that can be {node.name}"

    def _handed_on(self, maker: Called, base: str) -> bool:
        """Whether a call was given what another can have computed an operation in, and may have moved that."""
        before = [self.texts.maker(one, maker.line) for one in maker.given if one is not None]
        kernels = [self.texts.kernels.get(one.name) for one in before if one is not None]
        return any(may_be(base, text) for one in kernels if one is not None for text in one.text.split("\n"))

    def _origin_of(self, name: str) -> str:
        """What a node is a view or a copy of, or one of several results of."""
        node, seen = self.texts.nodes.get(name), set()
        while node and node.base in VIEWS | {"clone", "copy_", "copy"} and node.operands and node.name not in seen:
            seen.add(node.name)
            node = self.texts.nodes[
                node.operands[1 if node.base in ("copy_", "copy") and len(node.operands) > 1 else 0]
            ]
        return node.name if node else name

    def judged(self) -> list[Finding]:
        """What became of each sentence."""
        made = [self._judge(one) for one in self.sentences]
        return made + self._left_out()

    def _judge(self, one: Sentence) -> Finding:
        for form, rule in FORMS:
            if match := form.search(one.text):
                cause = rule(self, one, match)
                if cause is not None:
                    return Finding(one, "false" if cause else "held", cause)
        return Finding(one, "unread")

    def _left_out(self) -> list[Finding]:
        """Sections 2 and 3 name every pointer that the kernel reads or writes."""
        made = []
        if not self.kernel or self.users_own or self.doubted or "ties no line of this kernel" in self.text:
            return made
        if "is a template of torch's" in self.text:
            return made
        for section, touched in ((2, self.kernel.loaded), (3, self.kernel.stored)):
            told = " ".join(one.text for one in self.sentences if one.section == section)
            of_lines = {(name, int(line)) for name, some in PLACES.findall(told) for line in some.split(", ")}
            for pointer, numbers in touched.items():
                said = Sentence(section, "text", f"section {section} names all of its memory")
                missing = [line for line in numbers if (pointer, line) not in of_lines]
                if not re.search(rf"\b{pointer}\b", told):
                    cause = f"{pointer} is not named"
                else:
                    cause = f"{pointer} is not named on line {missing[0]}: {self._at(missing[0])}" if missing else ""
                made.append(Finding(said, "false" if cause else "held", cause))
        return made

    # The rules: none means that the sentence cannot be judged, an empty text that it holds, a text why it is false.

    def label(self, one: Sentence, match: re.Match) -> str | None:
        """Target: C++ for the CPU or Triton, as the kernels' texts and the wrapper's allocations are."""
        triton = "Triton for" in one.text
        if triton and "C++ for" in one.text and "simulated" not in one.text:
            return ""
        wrong = [name for name, kernel in self.texts.kernels.items() if (kernel.language == "triton") != triton]
        if wrong:
            return f"{wrong[0]} is {'C++' if triton else 'Triton'}"
        if triton and any(re.match(r"\s+\w+ = empty_strided_cpu\(", text) for text in self.texts.wrapper):
            return "the wrapper allocates memory of the CPU: empty_strided_cpu"
        return ""

    def steps(self, one: Sentence, match: re.Match) -> str | None:
        """A headline: each step has a line that can be it, and an order that the lines allow."""
        steps = [re.sub(r" \(\d+ times\)$", "", step) for step in match[1].split(", ")]
        steps = [operation_of(step) for step in steps if not re.fullmatch(r"\d+ more", step)]
        if not self.kernel or any("rest of" in step for step in steps):
            return None
        if any(step in ("max", "min") for step in steps):
            some = [base for base in steps if base in ("max", "min")]
            if "and its position" in match[1] and not POSITION.search(self.kernel.text):
                return f"nothing in the kernel's text finds the position of the {some[0]}imum"
        if cause := self._moves_only(set(steps)):
            return cause
        if cause := next((cause for base in steps if (cause := self._no_line(base))), ""):
            return cause
        if "copy into an input" in match[1] and (cause := self._copied_into_no_input()):
            return cause
        if "among others" not in one.text and (cause := self._unnamed()):
            return cause
        return self._order(steps)

    def _no_line(self, base: str) -> str:
        texts = self.kernel.text.split("\n")
        if base in SIGNS and not any(may_be(base, text) for text in texts if "_meta=" not in text and text):
            return f"no line of the kernel's text can be `{base}`"
        return ""

    def _moves_only(self, operations: set[str]) -> str:
        """A kernel of constants and stores computes nothing but what makes constants."""
        body = self.kernel.body.values()
        if any(
            "load" in text
            or (
                "tmp" in text
                and re.search(r"tmp\w+ [-+*/<>&|^]|\(tmp", text.split("=", 1)[-1])
                and "store(" not in text
            )
            for text in body
        ):
            return ""
        if self.kernel.loaded or not self.kernel.stored:
            return ""
        computing = sorted(operations - MADE - VIEWS - {"where", "gather"})
        if self.kernel.language == "triton" and computing and not re.search(r"\bx\d|rand", self._values()):
            return f"the kernel loads nothing and stores constants alone, so it does not compute `{computing[0]}`"
        return ""

    def _values(self) -> str:
        """What is assigned to names that hold values."""
        body = self.kernel.body.values()
        return "\n".join(text for text in body if re.match(r"\s+(?:auto )?_?tmp\w+ = ", text))

    def _unnamed(self) -> str:
        named = self.operations | {
            one
            for said in self.sentences
            if "It also computes" in said.text
            for name in CODE.findall(said.text)
            if (one := self._target(name))
        }
        if not named or self.users_own:
            return ""
        body = [text for text in self.kernel.body.values() if not re.match(r"\s+tl\.(store|atomic)", text)]
        text = unnamed(body, named)
        return f"no operation that is named computes the line {text}" if text else ""

    def _target(self, name: str) -> str | None:
        node = self.texts.nodes.get(name)
        return node.base if node else None

    def _copied_into_no_input(self) -> str:
        copies = [one for one in self.rows if _base(self.rows[one][0]) == "copy_"]
        for name in copies:
            node = self.texts.nodes.get(name)
            if node and node.operands and self.texts.nodes[node.operands[0]].target != "placeholder":
                return f"{name} copies into {node.operands[0]}, which is no input of the graph"
        return ""

    def _order(self, steps: list[str]) -> str | None:
        if "[&]" in self.kernel.text or not all(base in SIGNS for base in steps):
            return "" if len(steps) < 2 else None
        texts, judged = self.kernel.statements, ""
        found = {base: [one for one in texts if may_be(base, one.text) and _is_value(one)] for base in set(steps)}
        for place, later in enumerate(steps):
            for earlier in dict.fromkeys(steps[:place]):
                pairs = [(a, b) for a in found[earlier] for b in found[later] if a is not b]
                if (
                    earlier == later
                    or not pairs
                    or {one.number for one in found[earlier]} & {one.number for one in found[later]}
                    or later in steps[: steps.index(earlier)]
                ):
                    continue
                if all(b.number in a.before for a, b in pairs):
                    if later in LOOKS_UP or not any("load(" not in b.text for _, b in pairs):
                        judged = None  # to look up and then compute is to compute and then look up
                    else:
                        return f"each line that can be `{earlier}` needs one that can be `{later}`"
        return judged

    def exhaustive(self, one: Sentence, match: re.Match) -> str | None:
        """How many operations: as many as the table has rows, and no line is left that none of them computes."""
        if match.lastindex and int(match[1].replace(",", "")) != len(self.rows):
            return f"the table has {len(self.rows)} rows"
        return self._unnamed() if self.kernel else None

    def no_operation(self, one: Sentence, match: re.Match) -> str | None:
        """That it computes nothing: no line computes with values, and no constant is stored."""
        if not self.kernel:
            return None
        values = [re.sub(r"load\w*\(.*", "load", text) for text in self._values().split("\n")]  # an index is none
        found = next((text.strip() for text in values if ARITHMETIC.search(text)), None)
        if found and "ATen operation's that it did not load" not in one.text:
            return f"the kernel has {found}"
        if not self.kernel.loaded and self.kernel.stored and "only fills memory" not in self.text:
            return "the kernel loads nothing and stores a constant: it fills memory"
        return ""

    def row(self, one: Sentence, match: re.Match) -> str | None:
        """A row of section 1: size and dtype as the graph has them, and a fate that the texts allow."""
        cells = _cells(one.text)
        if len(cells) != 5:
            return None
        base, name, result, _, became = cells[0], cells[1], cells[2], cells[3], cells[4]
        base, node = _base(base), self.texts.nodes.get(name)
        if self.kernel:
            if cause := self._no_line(base) if became not in ELSEWHERE - {"written to memory"} else "":
                return cause
            if cause := self._moves_only({base}):
                return cause
        size = re.match(r"(\d+(?:x\d+)*) ", result + " ")
        if node and node.size is not None and size and [int(part) for part in size[1].split("x")] != node.size:
            return f"the graph's {name} has size {node.size}"
        if became == "computed by a library's kernel":
            return self._library(base)
        if became.startswith(("part of its", "used at once", "was a buffer", "no code")):
            return self._stored(base, name)
        return "" if node else None

    def _library(self, base: str) -> str | None:
        if base in INNER:
            return f"{base} calls graphs within this one, whose kernels Inductor writes"
        called = [text for text in self.texts.wrapper if "extern_kernels." in text or "torch.ops." in text]
        called = [text for text in called if " = torch.ops.inductor." not in text]
        if not called:
            return "the wrapper calls no library"
        if (
            base in SIGNS
            and base not in ("sort", "mul", "cumsum", "cumprod", "scatter_reduce", "index_put_")
            and not any(re.search(rf"\b_?{base}\w*\b", text.split("#")[0]) for text in called)
        ):
            return f"no library's call in the wrapper is `{base}`"
        return ""

    def _stored(self, base: str, name: str) -> str | None:
        """Whether what is said to be in no memory is stored by the one line that can be it."""
        node, kernel = self.texts.nodes.get(name), self.kernel
        if not node or not kernel:
            return None
        if base == "copy_" and node.operands:
            memory = self.texts.memory(node.operands[0])
            for pointer in kernel.stored:
                if self.given(pointer) in memory and node.operands[0].startswith(("arg", "primals")):
                    return f"{pointer} is {self.given(pointer)}, which {name} changes, and the kernel stores to it"
        same = [one for one, cells in self.rows.items() if _base(cells[0]) == base]
        if (
            base not in SIGNS
            or node.base == "getitem"  # of several results that one line computes
            or len(same) != 1
            or base in ("where", "sum", "mean", "index", "pow", "convert_element_type")
        ):
            return ""
        lines = [one for one in kernel.statements if one.target and may_be(base, one.text) and _is_value(one)]
        lines = [one for one in lines if not re.search(r"\btmp\w+ = .*(?:tl\.full|static_cast)", one.text)]
        if len({one.target for one in lines}) != 1 or kernel.language != "triton":
            return ""
        target = lines[0].target
        for one in kernel.statements:
            found = one.pointer and re.search(r", (tmp\w+), ", one.text + ", ")
            if not found or found[1] != target or not POINTER.fullmatch(one.pointer) or "store" not in one.text:
                continue
            if self._elements(one.pointer) == node.elements and not self._reordered(one.pointer, name):
                return f"line {one.number} stores {target}, the one line that can be it, whole: {one.text.strip()}"
        return ""

    def _elements(self, pointer: str) -> int | None:
        given = self.given(pointer) or ""
        if given in self.texts.sizes and self.texts.sizes[given] is not None:
            product = 1
            for length in self.texts.sizes[given]:
                product *= length
            return product
        node = self.texts.nodes.get(given)
        return node.elements if node else None

    def _reordered(self, pointer: str, name: str) -> bool:
        """Whether the page says that what is stored is another operation's result, which moves elements."""
        for said in self.sentences:
            match = re.search(r"result of `[^`]*` \(`(\w+)`\)", said.text)
            if said.section == 3 and match and re.search(rf"`{pointer}\b", said.text):
                return bool(self._between(match[1], name) - SAME_ORDER)
        return False

    def _between(self, name: str, origin: str, depth: int = 12) -> set[str]:
        """The operations on a way from one node back to another; none where there is no way."""
        node = self.texts.nodes.get(name)
        if node is None or name == origin or not depth:
            return set()
        for operand in node.operands:
            if operand == origin or (found := self._between(operand, origin, depth - 1)):
                return {node.base} | (found if operand != origin else set())
        return set()

    def absent_row(self, one: Sentence, match: re.Match) -> str | None:
        """A row of section 5: what no kernel stores."""
        cells = _cells(one.text)
        if len(cells) != 5 or not self.kernel:
            return None
        node = self.texts.nodes.get(cells[1])
        known = node.elements is not None and ITEM_BYTES.get(node.dtype) if node else None
        if known and cells[3] != "not known" and int(cells[3].replace(",", "")) != node.elements * known:
            return f"{cells[1]} has {node.elements} elements of {node.dtype}"
        return self._stored(_base(cells[0]), cells[1])

    def views(self, one: Sentence, match: re.Match) -> str | None:
        """Each view is of what the kernel computes, reads or writes, or of what a view of that is made of."""
        if not self.kernel:
            return None
        known = set(self.rows)
        for said in self.sentences:
            if said.section in (2, 3) and said.kind == "item":
                known |= set(CODE.findall(said.text))
                known |= {name for text in CODE.findall(said.text) for name in self.texts.memory(text)}
        roots = {root for name in known & set(self.texts.nodes) for root in self._roots(name)}
        for name in CODE.findall(match[1]):
            if name not in self.texts.nodes:
                continue
            if all(self.texts.constant(root) for root in self._roots(name)):
                continue
            if any(self._library_made(root) for root in self._roots(name)):
                continue
            if name not in known and not self._roots(name) & roots and not self._descends(name, known):
                if "among others" in self.text or "values were found in no line" in self.text:
                    return None  # what it is a view of may be computed and not named
                return f"`{name}` is a view of {', '.join(sorted(self._roots(name)))}, which the kernel has nothing of"
        return ""

    def _roots(self, name: str) -> set[str]:
        """What a node is a view of, in the end."""
        node = self.texts.nodes.get(name)
        if node is None or node.base not in VIEWS or not node.operands:
            return {name}
        return {root for operand in node.operands[:1] for root in self._roots(operand)}

    def _library_made(self, root: str) -> bool:
        """Whether the kernel is given what a library's call has made for an operation, perhaps not yet finished."""
        base = self._target(root)
        given = self.call.arguments if self.call and base not in (None, "placeholder") else []
        made = [rf"\s+{name} = extern_kernels\.{base}\(" for name in given if BUFFER.fullmatch(name)]
        return any(re.match(one, text) for one in made for text in self.texts.wrapper)

    def _descends(self, name: str, known: set[str]) -> bool:
        """Whether something that the kernel computes has a view as operand, through other views."""
        users = [node for node in self.texts.nodes.values() if name in node.operands]
        return any(
            (user.name in known and user.name in self.rows) or (user.base in VIEWS and self._descends(user.name, known))
            for user in users
        )

    def elsewhere(self, one: Sentence, match: re.Match) -> str | None:
        """Another kernel on a line of the wrapper, which is called there."""
        call = self.texts.calls.get(int(match[2]))
        if not call:
            return f"line {match[2]} calls no kernel"
        if call.kernel != match[1]:
            return f"line {match[2]} calls {call.kernel}"
        kernel = self.texts.kernels[call.kernel]
        for name in CODE.findall(match[3]):
            base = self._target(name)
            if base in SIGNS and not any(
                may_be(base, text) for text in kernel.text.split("\n") if "_meta=" not in text
            ):
                return f"no line of {call.kernel} can be `{name}`"
        return ""

    def only_calls(self, one: Sentence, match: re.Match) -> str | None:
        """A user's kernel stands for the operation that calls it, and for no other."""
        for name in CODE.findall(match[1]):
            base = self._target(name)
            if base and not base.startswith("triton_kernel_wrapper") and base not in VIEWS - {"slice", "view"}:
                return f"`{name}` is {base}, which a user's kernel is not called for"
        return ""

    def access(self, one: Sentence, match: re.Match) -> str | None:
        """What is read or written: the line has the pointer, the wrapper passes that buffer, and it has that size."""
        if not self.kernel or one.section not in (2, 3):
            return None
        buffer, what, size = match[1], match[2], match[3]
        read = one.section == 2
        touched = self.kernel.loaded if read else self.kernel.stored
        for pointer, places in PLACES.findall(one.text):
            if not POINTER.fullmatch(pointer):
                continue
            for line in places.split(", "):
                if int(line) not in touched.get(pointer, []):
                    return f"line {line} does not {'read' if read else 'write'} {pointer}: {self._at(int(line))}"
            given = self.given(pointer)
            place, named = self.passed(pointer), self.texts.place(buffer)
            if place is not None and named is not None and place.allocation != named.allocation:
                return f"the wrapper passes {given} as {pointer}, which is other memory than {buffer}"
            if given and given not in self.texts.memory(buffer) and not self._view_of(given, buffer):
                return f"the wrapper passes {given} as {pointer}"
            named_node = re.match(r"the result of `[^`]*` \(`(\w+)`\)", what)
            if read and named_node and (cause := self.made(pointer, named_node[1], int(places.split(", ")[0]))):
                return cause
        if size and (known := self._bytes(buffer)) is not None and int(size.replace(",", "")) != known:
            return f"{buffer} has {known} bytes"
        if "eturns it" in one.text and not self._returned(buffer):
            return f"the wrapper returns {', '.join(sorted(self.texts.returned))}, and not {buffer}"
        if "eturns it" in one.text and (line := self._written_again(buffer)):
            return f"line {line} writes that memory again before it is returned"
        return self._holds(buffer, what)

    def _written_again(self, buffer: str) -> int | None:
        """The line of a later call that writes the same elements of a buffer's memory; 0 for none."""
        ran, place = self.texts.ran, self.texts.place(buffer)
        if not ran or place is None or not self.call:
            return None
        later = [one for one in ran.calls if one.line > self.call.line]
        for one in later:
            for each in self.texts.written(one):
                if each.allocation == place.allocation and (each.offset, each.size) == (place.offset, place.size):
                    return one.line
        return 0

    def _at(self, line: int) -> str:
        return self.kernel.lines.get(line, "").strip()

    def _view_of(self, given: str, buffer: str) -> bool:
        names = self.texts.memory(buffer)
        return any(re.search(rf"\b{name}\b", given) or given in self.texts.alias_of_view(name) for name in names)

    def _bytes(self, buffer: str) -> int | None:
        node, sizes = self.texts.nodes.get(buffer), self.texts.sizes
        if node and node.elements is not None and node.dtype in ITEM_BYTES:
            return node.elements * ITEM_BYTES[node.dtype]
        items = {"torch.float32": 4, "torch.int64": 8, "torch.bfloat16": 2, "torch.bool": 1, "torch.float64": 8}
        if sizes.get(buffer) is None or self.texts.dtypes.get(buffer) not in items:
            return None
        product = items[self.texts.dtypes[buffer]]
        for length in sizes[buffer]:
            product *= length
        return product

    def _returned(self, buffer: str) -> bool:
        ran, place = self.texts.ran, self.texts.place(buffer)
        if ran and place is not None:
            return place.allocation in {one.allocation for one in ran.returned}
        names = self.texts.memory(buffer)
        names = names | {alias for name in names for alias in self.texts.alias_of_view(name)}
        returned = self.texts.returned
        if any("_partitions" in text or "partition_" in text for text in self.texts.wrapper[60:]):
            return True
        return bool(names & returned)

    def _holds(self, buffer: str, what: str) -> str | None:
        """`the result of NODE`: as many elements, and no library's call has left out a part of it."""
        if what.startswith("an input of the graph"):
            node = self.texts.nodes.get(buffer)
            return "" if node and node.target == "placeholder" else f"{buffer} is no input of the graph"
        if what.startswith("in which no ATen operation's values were found"):
            return ""
        match = re.match(r"the result of `([^`]*)` \(`(\w+)`\)(?=, as `(\w+)`)?", what)
        node = self.texts.nodes.get(match[3] or match[2]) if match else None
        if not node:
            return None
        size = self.texts.sizes.get(buffer)
        if size is not None and node.elements is not None:
            product = 1
            for length in size:
                product *= length
            if product != node.elements:
                return f"{buffer} has {product} elements and {node.name} has {node.elements}"
        if self._without_bias(buffer, node):
            return f"the wrapper's convolution into {buffer} has bias=None, and {node.name} has a bias"
        return ""

    def _without_bias(self, buffer: str, node: Node) -> bool:
        if node.base != "convolution" or len(node.operands) < 3 or buffer in self.texts.taken_over:
            return False
        return any(
            re.match(rf"\s+{buffer} = extern_kernels\.convolution\(.*bias=None", one) for one in self.texts.wrapper
        )

    def no_result(self, one: Sentence, match: re.Match) -> str | None:
        """Buffers that are said to hold no operation's result: not a convolution that is finished in place."""
        judged = None
        for buffer in re.findall(r"`(buf\d+)`", match[1]):
            begun = self.texts.taken_over.get(buffer, buffer)
            finished = rf"\s+{begun} = extern_kernels\.convolution\(.*bias=None"
            if any(re.match(finished, text) for text in self.texts.wrapper):
                return f"{buffer} is the convolution in {begun} with its bias added"
            if not self.kernel.loaded:
                return f"the kernel fills {buffer} with a constant, which is an operation's whole result"
        return judged

    def nothing_read(self, one: Sentence, match: re.Match) -> str | None:
        """`This kernel is given nothing to read`."""
        if not self.kernel:
            return None
        some = [name for name in self.kernel.loaded if not name.startswith("out_ptr")]
        return f"it reads {', '.join(some)}" if some else ""

    def none_reduced(self, one: Sentence, match: re.Match) -> str | None:
        """`None: no scheduler node in this kernel is a reduction, a scan or a sort.`"""
        if not self.kernel:
            return None
        found = next((text for text in self.kernel.body.values() if REDUCES.search(text)), None)
        if found:
            return f"the kernel has {found.strip()}"
        step = next((base for base in self.operations & SCANS), None)
        headline = next((said.text for said in self.sentences if "in this order" in said.text), "")
        return f"the same page says that it computes {step}" if step and step in headline else ""

    def scan(self, one: Sentence, match: re.Match) -> str | None:
        """A scan or a sort is of operations that scan or sort."""
        names = re.findall(r"`([^`]+)` \(`(\w+)`", one.text)
        wrong = [name for target, name in names if _base(target) not in SCANS]
        return f"`{wrong[0]}` is no scan and no sort" if wrong else ""

    def reduction(self, one: Sentence, match: re.Match) -> str | None:
        """A reduction of a type has a line of that type."""
        sign = BY_TYPE.get(match[1])
        if not sign or not self.kernel:
            return None
        if not re.search(sign, "\n".join(self.kernel.body.values())):
            return f"no line reduces by {match[1]}"
        return self._reduced(one.text)

    def _reduced(self, said: str) -> str:
        """What is reduced is no scan, and in the first step all of the operand's values are reduced."""
        match = re.search(r" of (at most )?([\d,]+) values(?:, (?:([\d,]+) times|once))?: ", said)
        names = re.findall(r"`[^`]+` \(`(\w+)`", said)
        if ordered := [name for name in names if self._target(name) in SCANS]:
            return f"`{ordered[0]}` is no reduction"
        node = self.texts.nodes.get(names[0]) if len(names) == 1 else None
        operand = self.texts.nodes.get(node.operands[0]) if node and node.operands else None
        if not match or not operand or node.base not in REDUCED or operand.elements is None:
            return ""
        length, times = (int((text or "1").replace(",", "")) for text in match.groups()[1:])
        left = length * times - operand.elements  # the last of several parts may be shorter
        return (
            "" if (0 <= left < length if match[1] else left == 0) else f"{operand.name} has {operand.elements} elements"
        )

    def parameter(self, one: Sentence, match: re.Match) -> str | None:
        """`in_ptr0 is buf3`, beside the signature."""
        given = self.given(match[1])
        if not given or not BUFFER.fullmatch(match[2]):
            return None
        if given in self.texts.memory(match[2]) or self._view_of(given, match[2]):
            return ""
        return f"the wrapper passes {given} as {match[1]}"

    def on_its_lines(self, one: Sentence, match: re.Match) -> str | None:
        """What is told of lines that are named: each has what the sentence quotes."""
        lines = [int(number) for number in re.findall(r"\d+", match[1])]
        launcher = re.match(r"Inductor's (\w+) launcher: ", one.text)
        if self.kernel and launcher and all(line in self.kernel.lines for line in lines):
            wrong = [line for line in lines if f".{launcher[1]}(" not in self.kernel.lines[line]]
            return f"line {wrong[0]} is {self._at(wrong[0])}" if wrong else ""
        if not self.kernel or one.section not in (2, 4) or not all(line in self.kernel.lines for line in lines):
            return None
        quoted = [text for text in CODE.findall(one.text) if re.fullmatch(r"[\w.]+", text)]
        wrong = [(text, line) for text in quoted for line in lines if text not in self.kernel.lines[line]]
        return f"line {wrong[0][1]} has no {wrong[0][0]}: {self._at(wrong[0][1])}" if wrong else "" if quoted else None

    def line(self, one: Sentence, match: re.Match) -> str | None:
        """A comment beside a line; what Inductor wrote it for, where notes tell that, no text of a line can show."""
        if not self.kernel:
            return None
        noted = "that it was written for" in self.text
        return lines.judge(self.texts, self.kernel, self.given, self.made, one.text, noted=noted)

    def reached(self, one: Sentence, match: re.Match) -> str | None:
        """The bytes that loads and stores reach: no more than the buffers have that the wrapper passes for them."""
        read, written, moved = (int(text.replace(",", "")) for text in match.groups())
        if read + written != moved:
            return f"{read} and {written} are {read + written}"
        if not self.kernel or self.users_own:
            return None
        added = {pointer for pointer in self.kernel.stored if "atomic" in self.kernel.text}  # which reads it as well
        for told, touched in ((read, {*self.kernel.loaded, *added}), (written, self.kernel.stored)):
            sizes = {given: self._bytes(given) for pointer in touched if (given := self.given(pointer))}
            if not sizes or len(sizes) < len({self.given(pointer) for pointer in touched}) or None in sizes.values():
                return None
            sizes |= self._workspaces()
            if told > sum(sizes.values()):
                return f"{', '.join(sizes)} have {sum(sizes.values())} bytes"
        return ""

    def _workspaces(self) -> dict[str, int]:
        """The bytes of memory that programs of a kernel share while it runs, which each reads and writes."""
        given = [self.given(pointer) for pointer in self.kernel.parameters if pointer.startswith("ws_ptr")]
        made = r"\s+{} = empty_strided_\w+\(\((\d+), \), \(1, \), torch\.uint8\)"
        found = ((name, re.match(made.format(name), text)) for name in given for text in self.texts.wrapper)
        return {name: int(match[1]) for name, match in found if match}

    def bounds(self, one: Sentence, match: re.Match) -> str | None:
        """Bounds on bytes: no more than the buffers have that the wrapper passes."""
        read, written = (int(text.replace(",", "")) for text in match.groups())
        return self.reached(one, re.match(r"(\d+) (\d+) (\d+)", f"{read} {written} {read + written}"))

    def simulated(self, one: Sentence, match: re.Match) -> str | None:
        """That nothing has run: said where the page's head says it."""
        return (
            "" if "simulated target" in self.sentences[0].text + self.sentences[1].text else "the head says otherwise"
        )

    def verified(self, one: Sentence, match: re.Match) -> str | None:
        """Of how many calls of kernels a page tells."""
        said, total = int((match[1] or "1").replace(",", "")), self.texts.calls_of_all
        if total is None:
            return None
        return "" if said == total else f"the wrappers have {total} calls of kernels"

    def some_verified(self, one: Sentence, match: re.Match) -> str | None:
        """Of how many calls of kernels not all are told as verified."""
        held, said, total = int(match[1].replace(",", "")), int(match[2].replace(",", "")), self.texts.calls_of_all
        if total is None:
            return None
        return "" if said == total and held < said else f"the wrappers have {total} calls of kernels"

    def numbered(self, one: Sentence, match: re.Match) -> str | None:
        """That each comment has its line's number: the code below the comments is the kernel's text, line by line."""
        if not self.kernel:
            return None
        code = re.search(r"```\w+\n(.*)\n```", self.text, re.S)
        told, number = {}, None
        for text in code[1].split("\n") if code else []:
            if begun := re.match(r"\s*(?:#|//) (\d+)(?:: |$)", text):
                number = int(begun[1])
            elif number is not None:
                told[number], number = text.strip(), None
            elif ended := re.match(r"(.*?)  (?:#|//) (\d+)$", text):
                told[int(ended[2])] = ended[1].strip()
        lines = {line: text.strip() for line, text in self.kernel.lines.items() if text.strip()}
        wrong = [line for line, text in told.items() if lines.get(line) != text]
        return f"line {wrong[0]} is {lines.get(wrong[0])}" if wrong else "" if told else None

    def counts_differ(self, one: Sentence, match: re.Match) -> str | None:
        """Loops that differ in their numbers of elements, rows or lengths: those that were printed do."""
        for pair in match[1].split("; "):
            sides = [re.findall(r"op\d+", side) for side in pair.split(" with ")]
            loops = [{loop for name in side for loop in self._loops(name)} for side in sides]
            if not all(loops):
                return None
            if len(loops[0]) == 1 and loops[0] == loops[1]:
                return f"both sides have loops of {min(loops[0])}"
        return ""

    def _loops(self, name: str) -> set[str]:
        """The number of rows and their length of an operation's loops, before and after fusion."""
        found = [one.get(name, {}).get("loops", set()) for one in (self.texts.operations, self.texts.merged)]
        return found[0] | found[1]

    def some_elements(self, one: Sentence, match: re.Match) -> str | None:
        """Operations of which lines compute a part: each has a line."""
        found = [self._target(name) for name in CODE.findall(match[1])]
        known = [base for base in found if base in SIGNS]
        if not self.kernel or not known:
            return None
        return next((cause for base in known if (cause := self._no_line(base))), "")

    def joined(self, one: Sentence, match: re.Match) -> str | None:
        """A fusion that was made, over buffers: each side touches each of them."""
        told, texts = [re.findall(r"op\d+", side) for side in match.groups()[:2]], self.texts
        if not all(name in texts.operations for side in told for name in side):
            return None
        for buffer in CODE.findall(match[3]):
            for side in told:
                touched = {
                    name for each in side for kind in ("reads", "writes") for dep in texts.operations[each][kind]
                    for name in re.findall(r"Dep\((?:name=)?'(\w+)'", dep)
                }  # fmt: skip
                touched |= texts.met(side)
                if not texts.memory(buffer) & {other for name in touched for other in texts.memory(name)}:
                    return f"{', '.join(side)} does not touch {buffer}"
        return ""

    def listed(self, one: Sentence, match: re.Match) -> str | None:
        """How many operations were found: as many as the table has rows."""
        count = 1 if match[1] == "one" else int(match[1].replace(",", ""))
        return "" if count == len(self.rows) else f"the table has {len(self.rows)} rows"

    def apart(self, one: Sentence, match: re.Match) -> str | None:
        """What the operations would move apart, against what the kernel moves."""
        count, apart, more = (int(text.replace(",", "")) for text in match.groups())
        if count != len(self.rows):
            return f"the table has {len(self.rows)} rows"
        moved = re.search(r"it moves ([\d,]+) bytes", self.text)
        if not moved:
            return None
        return "" if apart - more == int(moved[1].replace(",", "")) else f"{apart} less {more} is not {moved[1]}"

    def all_stored(self, one: Sentence, match: re.Match) -> str | None:
        """That each result is stored: so the table says."""
        stored = ("written to memory", "begun by", "computed by", "a view", "an input", "By Inductor's notes: written")
        other = [name for name, cells in self.rows.items() if not re.match("|".join(stored), cells[4].replace("`", ""))]
        other = [name for name in other if "written to memory" not in self.rows[name][4]]
        return f"{other[0]}: {self.rows[other[0]][4]}" if other else ""

    def eager(self, one: Sentence, match: re.Match) -> str | None:
        """The bytes of what eager hands from one call to another."""
        nodes = [self.texts.nodes.get(name) for name in CODE.findall(match[1])]
        if any(node is None or node.elements is None or node.dtype not in ITEM_BYTES for node in nodes):
            return None
        total = sum(node.elements * ITEM_BYTES[node.dtype] for node in nodes)
        return "" if total == int(match[2].replace(",", "")) else f"they have {total} bytes"

    def notes_of_bounds(self, one: Sentence, match: re.Match) -> str | None:
        """That figures are bounds: they are told as such."""
        return "" if "reach at most" in self.text else "they are not told as bounds"

    def moved(self, one: Sentence, match: re.Match) -> str | None:
        """What a kernel moves and does not compute: it is in the graph, and something is loaded."""
        names = [name for name in CODE.findall(match[1]) if name not in self.texts.nodes]
        return f"the graph has no {names[0]}" if names else "" if self.kernel and self.kernel.loaded else None

    def together(self, one: Sentence, match: re.Match) -> str | None:
        """The sum of the bytes of section 5's table."""
        known = [cells[3].replace(",", "") for cells in self.absent.values() if cells[3] != "not known"]
        total = sum(map(int, known))
        return "" if total == int(match[1].replace(",", "")) else f"the rows have {total} bytes"

    def refused(self, one: Sentence, match: re.Match) -> str | None:
        """A reason for not fusing."""
        return reason(self.texts, self.call, match[1], match[2], noted=one.noted)

    def pattern(self, one: Sentence, match: re.Match) -> str | None:
        """A pattern put nodes in the place of others: one node is put in one place, and it is in this graph."""
        after = CODE.findall(match[1])
        others = [said.text for said in self.sentences if said.text != one.text and " in the place of " in said.text]
        for text in others:
            if match[1] in text:
                return f"another sentence puts {match[1]} in another place"
        return "" if any(name in self.texts.nodes for name in after) else None

    def called(self, one: Sentence, match: re.Match) -> str | None:
        """`It is called on line N`."""
        if not self.call:
            return f"line {match[1]} calls no kernel"
        return (
            "" if not self.kernel or self.call.kernel == self.kernel.name else f"line {match[1]} calls another kernel"
        )

    def many_calls(self, one: Sentence, match: re.Match) -> str | None:
        """`The same code serves N calls`."""
        if not self.kernel or any("while" in text for text in self.texts.wrapper):
            return None
        count = Counter(call.kernel for call in self.texts.calls.values())[self.kernel.name]
        regions = sum(text.startswith("def ") for text in self.texts.wrapper) > 3
        return None if regions else ("" if count == int(match[1]) else f"the wrapper has {count} such calls")


POINTER = re.compile(r"(?:in_out|in|out|ws)_ptr\d*")
PLACES = re.compile(r"`(\w+)(?: \+ [^`]*)?` on lines? ([\d, ]*\d)")
Rule = Callable[[Page, Sentence, re.Match], str | None]
FORMS: list[tuple[re.Pattern, Rule]] = [
    (re.compile(form), rule)
    for form, rule in (
        (r"^Model `[^`]*`.*; .*(?:Triton for|C\+\+ for).*; torch", Page.label),
        (r"^This kernel computes(?:, among others and)?,? in this order: (.*)\.$", Page.steps),
        (r"^This is .* over .*: (.*)\.$", Page.steps),
        (r"^This kernel computes .* over .*, and more: (.*)\.$", Page.steps),
        (r"^It is called on line (\d+)", Page.called),
        (r"^The same code serves (\d+) calls", Page.many_calls),
        (r"^([\d,]+) operations are in this one kernel", Page.exhaustive),
        (r"^Nothing was fused here: the kernel computes one ATen operation alone", Page.exhaustive),
        (
            r"computes no ATen operation|ties the kernel to no ATen operation that|it only (?:copies|fills)",
            Page.no_operation,
        ),
        (r"^This kernel computes nothing new", Page.no_operation),
        (r"a Triton kernel of the user's own, and Inductor only calls it, for (.*)\.$", Page.only_calls),
        (r"^Views, which change indices and cost no code: (.*)\.$", Page.views),
        (r"^(op\d+.*?): Not fused; they have different numbers of elements", Page.counts_differ),
        (r"^(op\d+.*?): Not fused; both run along rows, .* differ in number or length", Page.counts_differ),
        (r"^(op\d+.*?): (Not fused.*)$", Page.refused),
        (r"^`(\w+)` on line (\d+): (.*)\.$", Page.elsewhere),
        (r"^`(\w+)`, (.*?)(?: \(([\d,]+) bytes?\))?: `\w+.*?` on lines? ", Page.access),
        (r"^The kernel also writes what is no ATen operation's result: (.*)\.$", Page.no_result),
        (r"^This kernel is given nothing to read", Page.nothing_read),
        (r"^None: no scheduler node in this kernel is a reduction", Page.none_reduced),
        (r"^A (?:sort|scan)\b.*: op\d+", Page.scan),
        (r"^[A-Z].*: `(\w+)` in op\d+", Page.reduction),
        (r" put (.*) in the place of ", Page.pattern),
        (r"^\d+: (\w+ptr\d*) is (\w+)", Page.parameter),
        (r"^\d+: ", Page.line),
        (r"\(lines? ([\d, ]+)\)\.$", Page.on_its_lines),
        (
            r"^The kernel's loads reach ([\d,]+) bytes of memory and its stores ([\d,]+), each .* moves ([\d,]+)",
            Page.reached,
        ),
        (r"^The kernel's loads reach at most ([\d,]+) bytes of memory and its stores at most ([\d,]+),", Page.bounds),
        (r"^These are bounds: ", Page.notes_of_bounds),
        (r"^\*\*Simulated target\.\*\*|^This code was written for hardware", Page.simulated),
        (r"^What is told of its (?:([\d,]+) kernels' calls|one kernel) is verified by values", Page.verified),
        (r"^What is told of ([\d,]+) of ([\d,]+) calls of kernels is verified by values", Page.some_verified),
        (r"^Each comment gives the line's number", Page.numbered),
        (r"^Lines of it compute some elements each of (.*)\.$", Page.some_elements),
        (r"^It also does a part of (.*)\.$", Page.some_elements),
        (r"^It computes a part of (.*)\.$", Page.some_elements),
        (r"^It also computes (.*), whose values were found in no line\.$", Page.some_elements),
        (r"^It moves (.*), which it does not compute\.$", Page.moved),
        (r"^((?:op\d+, )*op\d+) with ((?:op\d+, )*op\d+), over (.*)\.$", Page.joined),
        (r"^In this kernel ([\d,]+|one) operations? (?:were|was) found", Page.listed),
        (
            r"^Were each of the ([\d,]+) operations a kernel of its own, .* would move ([\d,]+) bytes: ([\d,]+) more",
            Page.apart,
        ),
        (r"^Nothing: each result of this kernel's operations is stored as a whole", Page.all_stored),
        (r"^Eager PyTorch runs the calls .* is in memory there: (.*), ([\d,]+) bytes?\.$", Page.eager),
        (r"^(?:Together they|Those whose bytes are known) have ([\d,]+) bytes?\.", Page.together),
        (
            r"^\| `[^|]*` \| `\w+` \|[^|]*\| .* \|",
            lambda page, one, match: (page.row(one, match) if one.section == 1 else page.absent_row(one, match)),
        ),
    )
]


def _cells(text: str) -> list[str]:
    cells = re.split(r"(?<!\\) ?\| ?", text.strip().strip("|").strip())
    return [re.sub(r"^`([^`]*)`$", r"\1", one.strip()) for one in cells]


def _base(target: str) -> str:
    parts = target.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims") else parts[-1]


def _became(cells: list[str] | None) -> str:
    return re.sub(r" as `\w+`$", "", cells[4]) if cells else ""


def _is_value(one: object) -> bool:
    return bool(re.search(r"tmp|store|atomic", one.text)) and one.target != "mask"
