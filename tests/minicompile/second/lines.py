"""Comments beside a kernel's lines, each part of one held against the line's text."""

import re
from collections.abc import Callable

from second import cpp
from second.operations import MADE, SEVERAL, SIGNS, may_be
from second.texts import BUFFER, GraphTexts, KernelText, Node, Statement

TELLS = {  # what is said of a line, and what its text has then
    r"import": r"^\s*(?:import|from) ",
    r"Triton is to compile for the GPU": r"set_driver_to_gpu",
    r"an elementwise kernel": r"\.pointwise\(",
    r"Inductor's persistent_reduction launcher: a whole row is in one block, so there is no loop over it":
        r"\.persistent_reduction\(",
    r"Inductor's reduction launcher.*": r"\.reduction\(",
    r"Inductor's launcher with its choice of block sizes": r"triton_heuristics\.\w+\(",
    r"Inductor's launcher, of kind (\w+)": r"triton_heuristics\.\1\(",
    r"sizes, rounded up to powers of two": r"size_hints=\{(?:'\w+': (?:1|2|4|8|\d*[2468])(?:, )?)*\}",
    r"how the inner axis lies in memory": r"reduction_hint=",
    r"the file that the kernel is in": r"filename=__file__",
    r"types of the arguments and the device that the code is for": r"triton_meta=\{'signature'.*'device'",
    r"Inductor's facts about the kernel": r"inductor_meta=",
    r"least work of a thread": r"min_elem_per_thread=",
    r"Triton compiles the function below": r"@triton\.jit",
    r"the signature": r"def \w+\(|extern \"C\"|^\s*(?:const )?\w+\*? ?\w+ptr\d*[,)]|int64_t ks\d+",
    r"off for positions past the end": r"\w*mask = \w*index < \w*numel",
    r"off for positions past the row's end": r"r\d_mask = r\d_index < r\d_numel",
    r"always on: no position is past the end": r"mask = tl\.full\(.*True",
    r"another name or a fixed value, for code that needs it": r"^\s*\w+(?:: tl\.constexpr)? = (?:\w+(?:\s*\* ?\w+)*)$",
    r"a constant": r"tl\.full\(|static_cast<[\w:]+>\([-\w.]|Vectorized<\w+>\(|= -?\d|std::numeric_limits",
    r"computes": r"\btmp\d+|\barg\d+_\d+|\btmp_",
    r"loads a block": r"tl\.load\(|descriptor.*\.load\(",
    r"stores a block": r"tl\.store\(|\.store\(",
    r"an atomic addition: several programs may add to the same element": r"atomic_add",
    r"positions within a block along the inner axis": r"tl\.arange\(",
    r"a function that two values are combined with": r"^@triton\.jit|^def _triton_helper_fn",
    r"the accumulator `(\w+)`, a value for each place in the block": r"^\s*\1 = tl\.(?:full|zeros)\(",
    r"`(\w+)` runs from `?(\w+)`? up to `?(\w+)`? in steps of `?(\w+)`?": r"for \1 in \w*\.?range\(\2, \3, \4\b",
    r"gives the value the block's shape": r"broadcast_to\(|\[:?,? ?None|\[None",
    r"an index is held against its bounds": r"device_assert|TORCH_CHECK",
    r"where the mask is off, a value that cannot change the result": r"tl\.where\(.*mask",
    r"`tl\.sum` adds up along one axis of the block": r"tl\.sum\(",
    r"`triton_helpers\.(\w+)` .*": r"triton_helpers\.\1\(",
    r"`tl\.(\w+)` .*": r"tl\.\1\(",
    r"ends (?:the|what) .*": r"\}",
    r"the loop over .*": r"for",
}  # fmt: skip
VARIABLE = re.compile(r"(?:`(\w+)`.*? is|`(\w+)` are) (.*)")
CHANGES = re.compile(r"`(\w+)` changes where the mask is on")
ORIGIN = re.compile(
    r"(?P<part>some elements of |a part of |adds up for |an index of |elements of )?"
    r"(?P<target>[\w.]+)(?: \((?P<node>\w+)\))?(?P<rest>,.*|: (?:reads|writes) .*)?"
)
MEMORY = re.compile(r": (reads|writes|searches) (\w+)")
HANDED = re.compile(  # the value is another's, as it is
    r"^(?:tl\.broadcast_to\((?P<a>tmp\w+), |tl\.where\(\w*mask\w*(?: & \w*mask\w*)*, (?P<b>tmp\w+), "
    r"|tl\.where\(tmp\w+, (?P<i>tmp\w+), 0\.0\)$"
    r"|(?P<c>tmp\w+)\[|(?P<d>tmp\w+)(?:\.to\(.*)?$|\(?(?P<e>tmp\w+)\)?\.to\(|(?:c10::)?convert<.*>\((?P<f>tmp\w+)\)$"
    r"|static_cast<[\w:]+>\((?P<g>tmp\w+)\)$|tl\.reshape\((?P<h>tmp\w+), )"
)
STRICT = set(SIGNS) & {
    *("add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "sin", "cos", "erf", "abs", "floor", "ceil", "maximum"),
    *("minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "sqrt", "rsqrt", "trunc", "round"),
}
UNTIED, ASSIGNS = "no operation is tied to this line", "it assigns a value"
Given = Callable[[str], str | None]
Made = Callable[[str, str], str | None]


def judge(texts: GraphTexts, kernel: KernelText, given: Given, made: Made, comment: str, *, noted: bool) -> str | None:
    """Why a comment, `NUMBER: WORDS`, is false; an empty text where it holds, none where it cannot be judged."""
    number, _, words = comment.partition(": ")
    line = int(number)
    if line not in kernel.lines:
        return f"the kernel has no line {line}"
    words = words.replace("; first needed by ", "; an index of ")
    found = [_part(texts, kernel, given, made, line, one, noted) for one in _parts(words)]
    return next((cause for cause in found if cause), None if None in found else "")


def _parts(words: str) -> list[str]:
    """The parts between semicolons; a launcher's is one with a semicolon of its own."""
    return [one for one in words.split("; ") if one]


def _part(
    texts: GraphTexts, kernel: KernelText, given: Given, made: Made, line: int, said: str, noted: bool
) -> str | None:
    text = kernel.lines[line]
    if said in (UNTIED, f"structure: {UNTIED}"):
        return "" if not said.startswith("structure") or not re.search(r"\btmp\d+ = ", text) else ASSIGNS
    if kernel.language == "cpp" and cpp.LOOP.fullmatch(said):
        return (cause := cpp.loop(said, text)) and f"line {line}: {cause}"
    for form, sign in (cpp.TELLS | TELLS if kernel.language == "cpp" else TELLS).items():
        if match := re.fullmatch(form, said):
            for place in range(1, (match.lastindex or 0) + 1):
                sign = sign.replace(rf"\{place}", re.escape(match[place]))
            return "" if re.search(sign, text) else f"line {line} is {text.strip()}"
    if match := CHANGES.fullmatch(said):
        held = re.match(rf"\s*{match[1]} = tl\.where\(.*mask.*, \w+, {match[1]}\)$", text)
        return "" if held else f"line {line} is {text.strip()}"
    if (match := VARIABLE.fullmatch(said)) and "`" in said:
        return _variable(match, said, line, text)
    if not noted and (match := ORIGIN.fullmatch(said)) and (match["node"] or match["target"]) in texts.nodes:
        return _origin(texts, kernel, given, made, line, match)
    match = MEMORY.search(f": {said}")
    return _memory(texts, kernel, given, line, match) if match else None


def _variable(match: re.Match, said: str, line: int, text: str) -> str | None:
    name, value = match[1] or match[2], match[3].strip("`")
    if not re.match(rf"\s*{name}\b(?:\s*: tl\.constexpr)? = ", text):
        return f"line {line} sets another: {text.strip()}"
    if "where this program's block begins" in said:
        return "" if "program_id" in text or "xoffset" in name or "offset" in name else f"line {line}: {text.strip()}"
    if "this program's positions" in said:
        return "" if "arange" in text else f"line {line}: {text.strip()}"
    return "" if text.strip().endswith(f"= {value}") else f"line {line} is {text.strip()}"


def _memory(texts: GraphTexts, kernel: KernelText, given: Given, line: int, match: re.Match) -> str | None:
    does, buffer = match[1], match[2]
    touched = kernel.stored if does == "writes" else kernel.loaded
    pointers = [pointer for pointer, lines in touched.items() if line in lines]
    if does == "searches" or not pointers:
        return None
    passed = [one for pointer in pointers if (one := given(pointer))]
    names = texts.memory(buffer) | {alias for name in texts.memory(buffer) for alias in texts.alias_of_view(name)}
    if not passed or any(one in names or set(BUFFER.findall(one)) & names for one in passed):
        return "" if passed else None
    return f"the wrapper passes {', '.join(passed)} there"


def _origin(texts: GraphTexts, kernel: KernelText, given: Given, made: Made, line: int, match: re.Match) -> str | None:
    if (memory := MEMORY.search(match["rest"] or "")) and (cause := _memory(texts, kernel, given, line, memory)):
        return cause
    node = texts.nodes[match["node"] or match["target"]]
    if match["part"] in ("a part of ", "adds up for ", "an index of "):
        return "" if memory else None
    statements = {one.number: one for one in kernel.statements}
    one = _source(kernel, statements.get(line))
    if node.target == "placeholder" and not any(given(pointer) == node.name for pointer in kernel.loaded):
        inputs = all(given(pointer) in texts.nodes for pointer in kernel.loaded)
        return f"the kernel is not given {node.name}" if inputs else None
    loads = r"load\w*(?:<[^>]*>)?\(\w*ptr|ptr\d*\[|load\w*\(tmp" if kernel.language == "cpp" else r"load\w*\(|ptr\d*\["
    if one is None or one.target is None or re.search(loads, re.sub(r"loadu\(tmpbuf", "", one.text)):
        return _loaded(texts, kernel, given, made, one, node.name, memory is not None)
    if re.search(r"= tl\.full\(", one.text) and texts.constant(node.name):
        return ""
    if node.base in ("inductor_random", "inductor_randint", "rand", "randn", "randint"):
        return "" if any("rand" in each for each in _reaching(kernel, one)) else f"line {one.number}: no rand"
    if node.base in MADE:  # the line says it as a number, a position or random numbers
        return "" if re.search(r"tl\.full\(|static_cast|arange|index|rand|\bx\d|\br\d|\d", one.text) else None
    if node.base in ("convert_element_type", "_to_copy"):
        return (
            "" if re.search(r"\.to\(|static_cast|convert|cast", kernel.lines[line]) else _same(texts, kernel, one, node)
        )
    if node.base == "getitem" and node.operands:
        node = texts.nodes[node.operands[0]]
        sign = SEVERAL.get(node.base)
        before = _reaching(kernel, one)
        return (
            None if not sign else "" if any(re.search(sign, each) for each in before) else f"no line can be {node.name}"
        )
    if node.base not in STRICT:
        if node.base in SIGNS:
            before = _reaching(kernel, one)
            return "" if any(may_be(node.base, each) for each in before) else f"no line up to {line} can be {node.name}"
        return None
    return "" if may_be(node.base, one.text) else f"line {one.number} cannot be {node.base}: {one.text.strip()}"


def _reaching(kernel: KernelText, one: Statement) -> list[str]:
    """The texts of the statements whose values a statement may use, and its own."""
    return [each.text for each in kernel.statements if each.number in one.before or each is one]


def _same(texts: GraphTexts, kernel: KernelText, one: Statement, node: Node) -> str | None:
    """A conversion that no line makes has the values of what it converts."""
    before = texts.nodes[node.operands[0]] if node.operands else None
    if before is None or before.base not in SIGNS:
        return None
    lines = _reaching(kernel, one)
    return "" if any(may_be(before.base, each) for each in lines) else f"no line can be {before.name}, converted"


def _loaded(
    texts: GraphTexts, kernel: KernelText, given: Given, made: Made, one: Statement | None, name: str, held: bool
) -> str | None:
    """What is loaded was left there; of an input it is that, or what is seen through views and look-ups of it."""
    if one is None:
        return "" if held else None
    pointers = [pointer for pointer, numbers in kernel.loaded.items() if one.number in numbers]
    passed = [each for pointer in pointers if (each := given(pointer)) in texts.nodes]
    if not passed:
        found = [made(pointer, name) for pointer in pointers]
        cause = next((each for each in found if each), None)
        return cause if cause else "" if held or (found and None not in found) else None
    seen, new = set(), {name}
    while new:
        seen |= new
        new = {operand for each in new if each in texts.nodes for operand in texts.nodes[each].operands} - seen
    return "" if set(passed) & seen else f"line {one.number} loads {passed[0]}, and {name} does not follow from it"


def _source(kernel: KernelText, one: Statement | None, depth: int = 8) -> Statement | None:
    """The statement whose value a line hands on."""
    while one is not None and one.target and depth:
        value = one.text.split(" = ", 1)[-1].strip().rstrip(";")
        match = cpp.HANDED.match(value) if kernel.language == "cpp" else HANDED.match(value)
        name = next((each for each in match.groups() if each), None) if match else None
        masked = re.match(r"tl\.where\(tmp\w+, (tmp\w+), (tmp\w+)\)$", value)
        zeros = rf"\b{masked[2]} = tl\.full\({masked[1]}\.shape" if masked else r"(?!)"  # where a block is off
        if masked and any(re.search(zeros, each.text) for each in kernel.statements):
            name = masked[1]
        if masked and _wrapped(kernel, value, masked[2]):
            name = masked[2]
        earlier = [each for each in kernel.statements if each.target == name and each.number < one.number]
        if name is None or not earlier:
            return one
        one, depth = earlier[-1], depth - 1
    return one


def _wrapped(kernel: KernelText, value: str, index: str) -> bool:
    """Whether a choice is an index, counted from the end where it is negative: what is no position is none of it."""
    negative, moved, _ = re.findall(r"tmp\w+", value)
    signs = (rf"\b{negative} = {index} < 0$", rf"\b{moved} = {index} \+ tmp\w+$")
    return all(any(re.search(sign, each.text.strip()) for each in kernel.statements) for sign in signs)
