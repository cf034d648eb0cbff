"""What lines of a C++ kernel say of themselves, read from the text alone."""

import re
from collections.abc import Iterable

NUMBER = re.compile(r"static_cast<\w+>\((-?\w+?)L?\)|\b(\d+)L\b")
TELLS = {  # what is said of a line, and what its text has then
    r"Inductor's own C\+\+ header": r"^#include [<\"]torch/csrc/inductor/",
    r"a C\+\+ header": r"^#include (?![<\"]torch/csrc/inductor/)",
    r"the signature begins": r"^extern \"C\"",
    r"book-keeping for division of integers by zero": r"inductor_cpu_\w*integer_div_error",
    r"this thread's number": r"^\s*(?:const )?int tid = omp_get_thread_num\(\);",
    r"OpenMP starts its threads here; each runs the block below": r"^\s*#pragma omp parallel\b",
    r"OpenMP starts its threads here": r"^\s*#pragma omp parallel\b",
    r"each runs the block below": r"^\s*#pragma omp parallel\b",
    r"OpenMP deals the iterations of the loop below out to the threads": r"^\s*#pragma omp for\b",
    r"the compiler may take the loop's iterations as independent": r"^\s*#pragma GCC ivdep$",
    r"the compiler is to unroll the loop (\d+) times": r"^\s*#pragma GCC unroll \1$",
    r"the loop's main part": r"^\s*if\(C10_LIKELY\(",
    r"the loop's rest": r"^\s*if\(C10_UNLIKELY\(",
    r"`(\w+)` is another name for `(\w+)`": r"^\s*auto \1 = \2;$",
    r"loads a vector": r"::loadu\(|\bloadu<",
    r"the same value in every lane": r"= at::vec::(?:Vectorized|VecMask)\w*<[^()]*>(?:::from)?\(\w+\);$",
    r"the accumulator `(\w+)`, of kind (\w+)": r"^\s*\2(?:Vec)?<.*> \1 = ",
    r"`(\w+)` accumulates in vector lanes of ([\w:]+), each lane its own share of the elements":
        r"^\s*at::vec::\w+<\2[,>].* \1 = ",
    r"`(\w+)`, of type ([\w:]+), takes the result and starts as `(.+)`": r"^\s*\2 \1 = \3;$",
    r"lane by lane, in those lanes alone that have an element": r"_masked_reduce\(|masked\w* = \w+_combine\(",
    r"lane by lane, `(\w+)` adds": r"^\s*\1 = \1 \+ [\w\[\]]+;$",
    r"lane by lane, `(\w+)` keeps the larger value": r"^\s*\1 = at::vec::maximum\(\1, [\w\[\]]+\);$",
    r"lane by lane, `(\w+)` keeps the smaller value": r"^\s*\1 = at::vec::minimum\(\1, [\w\[\]]+\);$",
    r"a horizontal reduction makes one value of the vector's lanes": r"vec_\w*reduce_all",
    r"a horizontal reduction joins the lanes' Welford statistics": r"welford_vec_reduce_all",
    r"OpenMP lets one thread alone run the block below": r"^\s*#pragma omp single\b",
    r"a cascade sum: partial sums are added pairwise, which rounds less": r"cascade_sum_combine\(|cascade_sum_final\(",
    r"Welford's update: mean and squared deviations in one pass": r"welford_combine\(",
    r"an atomic addition: several iterations may add to the same element": r"^\s*atomic_add",
    r"adds to what is there": r"ptr\d+\[.*\] \+= ",
    r"a small buffer on the stack, to take lanes one by one": r"__at_align__ std::array<",
    r"the vector goes into that buffer": r"^\s*\w+\.store\(\w*tmpbuf\w*\.data\(\)",
    r"hands the buffer's values on": r"^\s*return \w*tmpbuf\w*;$|^\s*return .*loadu\(\w*tmpbuf\w*\.data\(\)",
    r"one lane": r"\w+\[\w*(?:_inner|_tail)\]|\[\w+_inner",
    r"`(\w+)` runs over the lanes of one vector": r"^\s*for \(long \1 = 0; \1 < .*; \1\+\+\)$",
    r"`(\w+)` runs over the rest, one element at a time": r"^\s*for \(int64_t \1 = .*;\s*\1 < .*; \1\+\+\)$",
    r"the value as ([\w:]+)":
        r"convert<\1\b|static_cast<\1>\(|= \1\(|<\1,\d+>|(?:to|cast|from)<\1\b|\bbitcast\w*<\1\b|<at::vec::\w+<\1\b",
    r"`(\w+)` is what the inline function below returns": r"^\s*auto \1 =\s*(?:\[&\])?$",
    r"an inline function, called at once": r"\[&\]",
    r"calls it": r"^\s*\(\)$",
    r"scratch memory for ([\d,]+) values of type ([\w:]+), inside the kernel":
        r"std::unique_ptr<\2 \[\]>|\b\2 \w+\[.*\]",
    r"`(\w+)` points to that scratch memory": r"^\s*\S+ \1 = \w+\.get\(\);$",
}  # fmt: skip
LOOP = re.compile(r"`(\w+)` runs from (\S+) up to (\S+) in steps of (\S+)")
FOR = re.compile(r"^\s*for\(int64_t (\w+)=(.*?); (\w+)<(.*?); (\w+)\+=(.*)\)$")
ALIAS = re.compile(r"^\s*auto (\w*ptr\w*) = (\w*ptr\w*);$")
FUNCTION = re.compile(r"^\s*(?:auto )?(tmp\w*) =\s*(?:\[&\])?$")
INTO = re.compile(r"^\s*(tmp\w*)\[.*?\] = (.*);$|^\s*(.*)\.store\((tmp\w*)\.data\(\)")
FRESH = re.compile(
    r"^\s*__at_align__ std::array<.*> (\w+);$|^\s*(?:float|double|int\w*|at::\S+|\w+<.*>) (tmp_acc\w+) = "
)
HANDED = re.compile(  # the value is another's, as it is but for its type or its shape
    r"^\(?(tmp\w+)\)?(?:\.template (?:cast|to)<[^()]*>\(\)|\.to<[^()]*>\(\))?$"
    r"|^at::vec::(?:Vectorized\w*|VecMask)<[^()]*>(?:::from(?:<[^()]*>)?)?\((tmp\w+)\)$"
    r"|^at::vec::\w+<[^()]*>::arange\((tmp\w+), -?\d+\)$"
    r"|^(?:at::vec|c10)::convert<[^()]*>\((tmp\w+)\)$|^(?:static_cast<[\w:]+>|float|double|decltype\(\w+\))\((tmp\w+)\)$"
)


def loop(said: str, text: str) -> str | None:
    """Whether a line is the loop that is told; none where its bounds are no numbers and no sizes."""
    told, there = LOOP.fullmatch(said), FOR.match(text)
    if told is None or there is None or not told[1] == there[1] == there[3] == there[5]:
        return f"the line is {text.strip()}"
    bounds = [NUMBER.sub(lambda one: one[1] or one[2], there[place]) for place in (2, 4, 6)]
    told_bounds = [one.strip("`") for one in told.groups()[1:]]
    if not all(re.fullmatch(r"-?\w+", one) for one in (*bounds, *told_bounds)):
        return None
    return "" if bounds == told_bounds else f"it runs from {bounds[0]} up to {bounds[1]} in steps of {bounds[2]}"


def aliases(lines: Iterable[str]) -> dict[str, str]:
    """By another name for a parameter that name's own."""
    found: dict[str, str] = {}
    for text in lines:
        if match := ALIAS.match(text):
            found[match[1]] = found.get(match[2], match[2])
    return found


def functions(lines: dict[int, str]) -> dict[int, tuple[str, int]]:
    """By the line where it begins, the name that takes what an inline function gives, and the line where it ends."""
    made: dict[int, tuple[str, int]] = {}
    for first, text in lines.items():
        if match := FUNCTION.match(text):
            depth, last = 0, first
            for number in (one for one in lines if one > first):
                depth += lines[number].count("{") - lines[number].count("}")
                last = number
                if not depth and lines[number].rstrip().endswith(";"):
                    break
            made[first] = match[1], last
    return made
