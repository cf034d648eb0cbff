"""C++ kernels of Inductor's, compiled as they are but for a note after each line of what it assigned.

All kernels of a compile are built in one go, since most of that time goes into the headers. They run on one thread.
"""

import atexit
import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch

from minicompile.torch_private.names import owner
from minicompile.verifying.blocks import Memory, Unable
from minicompile.verifying.forked import Shared, forked
from minicompile.verifying.kernels import Access, Ran, Seen

NOTED = 1 << 17  # values of a line that are kept
GRID = 1 << 21  # places of a loop nest
SECONDS = 120.0  # to build
SOURCES = re.compile(r"async_compile\.cpp_pybinding\(\[.*?\], r?'''(.*?)'''\)", re.S)
LOOP = re.compile(
    r"^\s*for ?\((?:int64_t|long|int) (?P<name>\w+) ?= ?(?:static_cast<int64_t>\()?(?P<first>[^;]*?)\)?; "
    r"?\w+ ?< ?(?:static_cast<int64_t>\((?P<end>[^;]*)\)|(?P<plain>\w+)); ?(?P<step>[^)]*(?:\([^)]*\))?)\)"
)
ASSIGNED = re.compile(r"^\s*(?:auto )?(?P<name>tmp(?:_acc)?\d+) = .*;\s*$")
ALIAS = re.compile(r"^\s*auto (?P<alias>\w*ptr\d+) = (?P<of>\w*ptr\d+);")
ADDRESS = re.compile(r"(?P<pointer>\w*ptr\d+)(?: \+ static_cast<int64_t>\(|\[static_cast<int64_t>\()")
STORED = re.compile(r"\.store\(\s*\w*ptr|^\s*\w*ptr\d+\[.*?\] = |atomic_add\(&|transpose_mxn")

DRAWN = {"normalized_rand_cpu": "drawn_uniform", "randn_cpu": "drawn_normal", "randint64_cpu": "drawn_integer"}

NOTES = r"""
#include <vector>
#include <type_traits>
struct Noted { std::vector<int64_t> where; std::vector<double> values; int64_t lanes = 0, kind = 0; };
template <typename T> constexpr int kind_of() {
    if (std::is_same_v<T, bool>) return 0;
    if (std::is_same_v<T, double>) return 2;
    if (std::is_same_v<T, c10::BFloat16>) return 3;
    if (std::is_same_v<T, c10::Half>) return 4;
    return std::is_integral_v<T> ? 5 : 1;
}
static std::vector<Noted> noted;
static int64_t most = 0;
extern "C" void begin_notes(int64_t lines, int64_t limit) { noted.assign(lines, {}); most = limit; }
extern "C" int64_t count_notes(int64_t line) { return noted[line].values.size(); }
extern "C" int64_t lanes_of(int64_t line) { return noted[line].lanes; }
extern "C" int64_t kind_of_line(int64_t line) { return noted[line].kind; }
extern "C" const double* values_of(int64_t line) { return noted[line].values.data(); }
extern "C" const int64_t* where_of(int64_t line) { return noted[line].where.data(); }
// random numbers as `random_numbers.py` draws them
static inline uint64_t mixed(uint64_t v) {
    v = (v ^ (v >> 30)) * (0 - 0x40A7B892E31B1A47ull);
    v = (v ^ (v >> 27)) * (0 - 0x6B2FB644ECCEEE15ull);
    return v ^ (v >> 31);
}
static inline uint64_t drawn(int64_t seed, int64_t offset) { return mixed(mixed(seed) + offset); }
static inline float drawn_uniform(int64_t seed, int64_t offset) {
    return (float)((double)(drawn(seed, offset) & 0xFFFFFF) / (1 << 24));
}
static inline float drawn_normal(int64_t seed, int64_t offset) {
    double first = std::min(std::max(drawn_uniform(seed, 2 * offset) + 0x1p-25, 0.0), 1 - 0x1p-25);
    double second = drawn_uniform(seed, 2 * offset + 1);
    return (float)(std::sqrt(-2 * std::log(first)) * std::cos(2 * M_PI * second));
}
static inline int64_t drawn_integer(int64_t seed, int64_t offset, int64_t low, int64_t high) {
    return (int64_t)(drawn(seed, offset) & 0x7FFFFFFFFFFFFFull) % (high - low) + low;
}
template <typename T> struct Lanes {
    static constexpr int count = 1; static constexpr int kind = kind_of<T>();
    static void put(const T& value, double* to) {
        if constexpr (std::is_convertible_v<T, double>) to[0] = static_cast<double>(value);
        else to[0] = NAN;  // a value with its place
    }
};
template <typename T> struct Lanes<at::vec::Vectorized<T>> {
    static constexpr int count = at::vec::Vectorized<T>::size(); static constexpr int kind = kind_of<T>();
    static void put(const at::vec::Vectorized<T>& value, double* to) {
        T held[count]; value.store(held);
        for (int i = 0; i < count; i++) to[i] = static_cast<double>(static_cast<T>(held[i]));
    }
};
template <typename T, int N> struct Lanes<at::vec::VectorizedN<T, N>> {
    static constexpr int count = at::vec::VectorizedN<T, N>::size(); static constexpr int kind = kind_of<T>();
    static void put(const at::vec::VectorizedN<T, N>& value, double* to) {
        T held[count]; value.store(held);
        for (int i = 0; i < count; i++) to[i] = static_cast<double>(static_cast<T>(held[i]));
    }
};
template <typename T, int N> struct Lanes<at::vec::VecMask<T, N>> {
    static constexpr int count = at::vec::VecMask<T, N>::size(); static constexpr int kind = 0;
    static void put(const at::vec::VecMask<T, N>& value, double* to) {
        T held[count]; static_cast<at::vec::VectorizedN<T, N>>(value).store(held);
        for (int i = 0; i < count; i++) { unsigned char bits[sizeof(T)]; memcpy(bits, held + i, sizeof(T));
            to[i] = 0; for (auto bit : bits) if (bit) to[i] = 1; }
    }
};
template <typename T> void note(int line, std::initializer_list<int64_t> where, const T& value) {
    using Of = Lanes<std::decay_t<T>>;
    auto& at = noted[line];
    if ((int64_t)at.values.size() >= most) return;
    at.lanes = Of::count; at.kind = Of::kind;
    at.where.insert(at.where.end(), where.begin(), where.end());
    at.values.resize(at.values.size() + Of::count);
    Of::put(value, at.values.data() + at.values.size() - Of::count);
}
"""


@dataclass(frozen=True)
class Axis:
    """A loop's variable; an inner loop over a tile counts on from the outer one."""

    name: str
    end: int | None
    vector: bool


@dataclass
class Noted:
    """A line that assigns a value, in the loops that are around it."""

    number: int
    line: int
    name: str
    root: int  # line of the outermost loop
    axes: list[Axis]
    lanes: str | None  # the axis along which a vector lies
    branch: tuple[Any, int]  # the loops around it, and the line of the condition within them


@dataclass
class Addressed:
    """A line that loads or stores."""

    line: int
    pointer: str
    expression: str
    root: int
    axes: list[Axis]
    stored: bool


@dataclass
class Text:
    """A kernel's text, read."""

    name: str  # in the library
    source: str
    parameters: list[str]
    lines: list[Noted] = field(default_factory=list)
    addresses: list[Addressed] = field(default_factory=list)
    constant: set[str] = field(default_factory=set)  # parameters that are only read
    made: str = ""


def name_of(source: str) -> str:
    return "kernel_" + hashlib.sha256(source.encode()).hexdigest()[:16]


@cache
def read(source: str) -> Text:
    """A kernel's lines, its loops, and the same text with notes."""
    name = name_of(source)
    lines = source.lstrip("\n").split("\n")
    head = re.search(r"void\s+kernel\((.*?)\)\s*\{", source, re.S)
    if head is None:
        raise Unable("kernel_kind", "a C++ template")
    parameters = [one.split()[-1].lstrip("*") for one in head[1].split(",") if one.strip()]
    text = Text(name, source, parameters)
    text.constant = {one.split()[-1] for one in head[1].split(",") if one.strip().startswith("const")}
    alias: dict[str, str] = {}
    open_loops: list[tuple[int, Axis, int]] = []  # depth of its braces, the axis, its line
    waiting: tuple[Axis, int] | None = None
    branches: list[tuple[int, int]] = []  # depth of its braces, line
    depth, made, condition = 0, list[str](), None
    literal = set[str]()  # names of what stands in the text, in whatever dtype
    for number, line in enumerate(lines, 1):
        if match := LOOP.match(line):
            end = match["end"] or match["plain"]
            whole = re.fullmatch(r"(\d+)L?", end or "")
            step = re.search(r"\+=\s*(?:static_cast<int64_t>\()?(\d+)", match["step"])
            vector = bool(step and int(step[1]) > 1)
            waiting = (Axis(match["name"], int(whole[1]) if whole else None, vector), number)
        condition = number if re.match(r"^\s*if ?\(C10_", line) else condition
        axes = [one for _, one, _ in open_loops]
        root = open_loops[0][2] if open_loops else 0
        if match := ALIAS.match(line):
            alias[match["alias"]] = alias.get(match["of"], match["of"])
        for match in ADDRESS.finditer(line):
            expression = _closed(line[match.end() :])
            pointer = alias.get(match["pointer"], match["pointer"])
            text.addresses.append(Addressed(number, pointer, expression, root, axes, bool(STORED.search(line))))
        made.append(line)
        match = ASSIGNED.match(line)
        if match and _is_literal(line.partition("=")[2], literal, axes):
            literal.add(match["name"])
            match = None
        elif match:
            literal.discard(match["name"])
        if (
            match
            and line.count("(") == line.count(")")
            and not re.search(r"\[\s*&\s*\]", line)
            and "alignas" not in line
        ):
            lanes = _lanes(axes)
            outer = [line for _, axis, line in open_loops if not axis.name.endswith(("_tail", "_inner"))]
            within = tuple(outer), branches[-1][1] if branches else 0
            text.lines.append(Noted(len(text.lines), number, match["name"], root, axes, lanes, within))
            where = ", ".join(f"(int64_t){one.name}" for one in axes)
            made[-1] += f" note(__first + {len(text.lines) - 1}, {{{where}}}, {match['name']});"
        for character in line:
            if character == "{":
                depth += 1
                if waiting is not None:
                    open_loops.append((depth, *waiting))
                    waiting = None
                elif condition is not None:
                    branches.append((depth, condition))
                    condition = None
            elif character == "}":
                open_loops = [one for one in open_loops if one[0] < depth]
                branches = [one for one in branches if one[0] < depth]
                depth -= 1
    body = re.sub(r"(?m)^#include.*$", "", "\n".join(made))
    body = re.sub(r"void\s+kernel\(", f"void {name}(", body)
    for theirs, ours in DRAWN.items():
        body = re.sub(rf"\b{theirs}\(", f"{ours}(", body)
    text.made = body.replace("__first + ", "")
    return text


def _is_literal(right: str, known: set[str], axes: Sequence[Axis]) -> bool:
    """Whether what is assigned is a number of the text's: a node has such values by chance alone."""
    names = {*re.findall(r"\btmp(?:_acc)?\d+\b", right)}
    return names <= known and not re.search(rf"ptr|\bks\d|\b({'|'.join(one.name for one in axes) or ' '})\b", right)


def _lanes(axes: Sequence[Axis]) -> str | None:
    inner = {one.name.removesuffix("_inner") for one in axes if one.name.endswith("_inner")}
    tails = {one.name.removesuffix("_tail") for one in axes if one.name.endswith("_tail")}
    found = [one.name for one in axes if one.vector and one.name not in inner | tails]
    return found[-1] if found else None


def _closed(rest: str) -> str:
    """The text up to the parenthesis that ends it."""
    depth = 1
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[:place]
    return rest


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="verified_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Library:
    """The kernels of some graphs, built for the vectors that Inductor wrote them for.

    What is built for narrower ones loads and stores beyond its end.
    """

    def __init__(self, codes: Iterable[str], vectors: Any) -> None:
        self._vectors = vectors
        self.texts: dict[str, Text] = {}
        self.unread: dict[str, Unable] = {}
        for source in dict.fromkeys(one for code in codes for one in SOURCES.findall(code)):
            try:
                self.texts[source] = read(source)
            except Unable as error:
                self.unread[source] = error
        self._built: dict[str, ctypes.CDLL | Unable] = {}  # by source
        self._build([*self.texts.values()])

    def _build(self, texts: list[Text]) -> None:
        """Build kernels in one go; where one cannot be built, the others are all the same."""
        if not texts:
            return
        try:
            built: ctypes.CDLL | Unable = _built(texts, self._vectors)
        except Unable as error:
            if error.code == "not_built" and len(texts) > 1:
                middle = len(texts) // 2
                self._build(texts[:middle])
                self._build(texts[middle:])
                return
            built = error
        self._built |= dict.fromkeys((one.source for one in texts), built)

    def run(self, source: str, arguments: Sequence[Any], seconds: float = SECONDS) -> Ran:
        """Run a kernel on its arguments, in a process of its own: a kernel may be wrong, and end whoever runs it."""
        if source in self.unread:
            raise self.unread[source]
        if source not in self._built:
            raise Unable("kernel_kind", "a C++ kernel that is made elsewhere")
        text, library = self.texts[source], self._built[source]
        if isinstance(library, Unable):
            raise library
        given = dict(zip(text.parameters, arguments, strict=True))
        tensors = {name: one for name, one in given.items() if isinstance(one, torch.Tensor)}
        before = {name: _flat(one).clone() for name, one in tensors.items() if name not in text.constant}
        shared = Shared(tensors.values())
        passed = [_passed(shared.address(one) if isinstance(one, torch.Tensor) else one, one) for one in arguments]
        notes = forked(lambda: _notes_of(text, library, passed), seconds)
        shared.take_back()
        ran = Ran(programs=1, random=any(name in source for name in DRAWN), text=source.lstrip("\n"))
        ran.loaded = {one.pointer for one in text.addresses if not one.stored or one.pointer not in before} & set(
            tensors
        )
        ran.loaded |= {name for name in tensors if name in text.constant}
        for name, held in before.items():
            now = _flat(tensors[name])
            changed = (now != held) & ~((now != now) & (held != held))
            ran.stored[name] = [changed.nonzero().reshape(-1)]
        self._noted(text, notes, tensors, {n: v for n, v in given.items() if isinstance(v, int)}, ran)
        for access in ran.accesses:  # the same values may have been written again
            if access.stored and access.mask is not None and access.memory.argument in ran.stored:
                ran.stored[access.memory.argument].append(access.offsets[access.mask])
        return ran

    def _noted(
        self, text: Text, notes: "dict[int, Notes]", tensors: dict[str, torch.Tensor], symbols: dict[str, int], ran: Ran
    ) -> None:
        roots: dict[int, dict[str, int]] = {}
        columns: dict[int, tuple[dict[str, torch.Tensor], torch.Tensor]] = {}
        for one in text.lines:
            if one.number not in notes:
                continue
            lanes, values = notes[one.number].lanes, torch.from_numpy(notes[one.number].values)
            times = len(values) // lanes
            where: dict[str, torch.Tensor] = {}
            if one.axes:
                table = torch.from_numpy(notes[one.number].where)
                table = table.reshape(times, len(one.axes)).repeat_interleave(lanes, 0)
                for place, axis in enumerate(one.axes):
                    column = table[:, place]
                    if lanes > 1 and axis.name == one.lanes:
                        column = column + torch.arange(lanes).repeat(times)
                    base = axis.name.removesuffix("_inner").removesuffix("_tail")
                    # a loop over a tail counts as the one over the whole does, one over a tile on from its start
                    where[base] = where[base] + column if axis.name.endswith("_inner") and base in where else column
            elif lanes > 1:
                where["lane"] = torch.arange(lanes).repeat(times)
            if one.lanes is None and lanes > 1 and one.axes:
                continue  # a vector of what is gathered over a loop
            columns[one.number] = (where, values)
            sizes = roots.setdefault(one.root, {})
            for name, column in where.items():
                end = next((axis.end for axis in one.axes if axis.name == name and axis.end is not None), None)
                sizes[name] = max(sizes.get(name, 0), end if end is not None else int(column.max()) + 1)
        for one in text.lines:
            if one.number not in columns:
                continue
            where, values = columns[one.number]
            sizes = roots[one.root]
            shape = [sizes[name] if name in where else 1 for name in sizes]
            total = torch.Size(shape).numel()
            if total > GRID:
                ran.sampled = 1
                continue
            flat_place = torch.zeros(len(values), dtype=torch.int64)
            inside = torch.ones(len(values), dtype=torch.bool)
            for name, size in zip(sizes, shape, strict=True):
                at = where.get(name, torch.zeros((), dtype=torch.int64))
                inside &= at < size
                flat_place = flat_place * size + at
            dense = torch.full((max(total, 1),), float("nan"), dtype=torch.float64)
            there = torch.zeros(max(total, 1), dtype=torch.bool)
            dense[flat_place[inside]], there[flat_place[inside]] = values[inside], True
            dtype = KINDS[notes[one.number].kind]
            held = (dense if dtype.is_floating_point else dense.nan_to_num(0.0)).to(dtype)
            ran.branches[one.line] = one.branch
            seen = Seen(one.root, held.reshape(shape), there.reshape(shape), False)
            ran.values.setdefault((one.line, one.name), []).append(seen)
        self._places(text, tensors, symbols, roots, ran)

    def _places(self, text: Text, tensors: dict[str, torch.Tensor], symbols: dict[str, int],
                roots: dict[int, dict[str, int]], ran: Ran) -> None:  # fmt: skip
        memories = {name: Memory(_flat(one), name, one) for name, one in tensors.items()}
        for number, sizes in roots.items():
            grid = _grid(sizes)
            counted: list[tuple[int, torch.Tensor, tuple[int, ...]]] = []
            names = list(sizes)
            for first in range(len(names)):
                index = torch.zeros((), dtype=torch.int64)
                for last in range(first, len(names)):
                    index = index * sizes[names[last]] + grid[names[last]]
                    counted.append((number, index, tuple(sizes[name] for name in names[first : last + 1])))
            ran.natural.append(counted)
        for one in text.addresses:
            if one.pointer not in memories or one.root not in roots or "tmp" in one.expression:
                continue
            sizes = roots[one.root]
            if torch.Size(sizes.values()).numel() > GRID:
                continue
            offsets = _evaluated(one.expression, _grid(sizes), symbols, one.axes)
            if offsets is None:
                continue
            memory = memories[one.pointer]
            offsets = offsets + memory.tensor.storage_offset()
            inside = (offsets >= 0) & (offsets < memory.flat.numel())
            safe = torch.where(inside, offsets, torch.zeros_like(offsets))
            ran.accesses.append(Access(one.root, one.line, memory, safe, inside, one.stored))
        noted = {one.memory.argument for one in ran.accesses}
        for name, memory in memories.items():
            if name not in noted:  # whose addresses follow from data, or are in no text
                ran.accesses.append(Access(-1, -1, memory, torch.zeros(0, dtype=torch.int64), None, False))


KINDS = (torch.bool, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)


def _grid(sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    made = {}
    for place, (name, size) in enumerate(sizes.items()):
        shape = [1] * len(sizes)
        shape[place] = size
        made[name] = torch.arange(size).reshape(shape)
    return made


def _evaluated(expression: str, grid: dict[str, torch.Tensor], symbols: dict[str, int], axes: Sequence[Axis]):
    """An index's value at each place of a loop nest."""
    text = re.sub(r"static_cast<int64_t>", "", expression)
    text = re.sub(r"\b(\d+)L\b", r"\1", text).replace("c10::div_floor_integer", "_floor").replace("?", " if ")
    space: dict[str, Any] = {"_floor": lambda one, other: one // other, "__builtins__": {}}
    space |= symbols | grid
    for axis in axes:
        if axis.name.endswith("_inner"):
            space[axis.name] = 0
        if axis.name.endswith("_tail"):
            space[axis.name] = grid.get(axis.name.removesuffix("_tail"), 0)
    if not re.fullmatch(r"[\w\s+\-*/%(),]*", text):
        return None
    try:
        made = eval(text, space)
    except (NameError, TypeError, SyntaxError, AttributeError):
        return None
    rank = len(grid)
    if isinstance(made, int):
        return torch.full([1] * rank, made, dtype=torch.int64)
    return made if isinstance(made, torch.Tensor) else None


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


def _passed(value: Any, argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(value)
    return ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_double(value)


@dataclass
class Notes:
    """What was noted of a line: its values in order, in vectors of so many lanes, and where each vector was."""

    lanes: int
    kind: int
    values: numpy.ndarray
    where: numpy.ndarray


def _notes_of(text: Text, library: ctypes.CDLL, passed: Sequence[Any]) -> dict[int, Notes]:
    """Call a kernel, and take what it notes, by the numbers of lines."""
    library.begin_notes(ctypes.c_int64(len(text.lines)), ctypes.c_int64(NOTED))
    getattr(library, text.name)(*passed)
    found = {}
    for one in text.lines:
        number = ctypes.c_int64(one.number)
        if count := library.count_notes(number):
            lanes = library.lanes_of(number)
            values = _noted_at(library.values_of, number, ctypes.c_double, count)
            where = _noted_at(library.where_of, number, ctypes.c_int64, count // lanes * len(one.axes))
            found[one.number] = Notes(lanes, library.kind_of_line(number), values, where)
    return found


def _noted_at(function: Any, number: ctypes.c_int64, kind: Any, count: int) -> numpy.ndarray:
    if not count:
        return numpy.empty(0, kind)
    function.restype = ctypes.c_void_p
    return numpy.ctypeslib.as_array((kind * count).from_address(function(number))).copy()


def _flags(vectors: Any) -> list[str]:
    if vectors is None:
        raise Unable("no_vector_unit")
    options = owner("cpp_options").CppTorchOptions(vec_isa=vectors, warning_all=False)
    return [
        *(f"-I{path}" for path in options.get_include_dirs()),
        *(f"-D{one.strip()}" for one in options.get_definitions()),
        *vectors.build_arch_flags().split(),
        *(f"-L{path}" for path in options.get_libraries_dirs()),
        *(f"-l{one}" for one in options.get_libraries()),
    ]


def _built(texts: list[Text], vectors: Any) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        raise Unable("no_compiler")
    sources = "\n".join(one.source for one in texts)
    flags = _flags(vectors)
    folder = _folder()
    key = hashlib.sha256((sources + " ".join(flags)).encode()).hexdigest()[:16]
    headers = [line for line in dict.fromkeys(sources.splitlines()) if line.startswith("#include")]
    common = [compiler, "-fPIC", "-O0", "-w", "-std=c++20", "-fno-strict-aliasing"]
    header = folder / f"prefix_{hashlib.sha256(repr((headers, flags)).encode()).hexdigest()[:12]}.h"
    compiled = [one for one in flags if not one.startswith(("-l", "-L"))]
    if not header.exists():
        header.write_text("\n".join([*headers, NOTES]))
        _run([*common, *compiled, "-x", "c++-header", str(header), "-o", f"{header}.gch"], folder)
    source, library = folder / f"{key}.cpp", folder / f"{key}.so"
    # kernels from templates bring functions of the same names
    source.write_text("\n".join(f"namespace of_{one.name} {{\n{one.made}\n}}" for one in texts))
    _run([*common, *compiled, "-include", str(header), "-shared", str(source), "-o", str(library),
          *(one for one in flags if one.startswith(("-l", "-L"))), "-lgomp"], folder)  # fmt: skip
    made = ctypes.CDLL(str(library))
    made.count_notes.restype = made.lanes_of.restype = made.kind_of_line.restype = ctypes.c_int64
    return made


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unable("time", "a C++ compiler") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise Unable("not_built", (lines or ["no word"])[0][-160:])
