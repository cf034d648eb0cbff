"""From marks to what to try next: which mistake it looks like, in codes with fields, the most pressing first.

A wrong result that looks like that of a known mistake says so itself (`minikernel.exercise.mistakes`). What does not
is known by how it failed, or by which cases failed and which did not: what is right at 600 columns alone has that
number in it. Where nothing of this fits, the hint is the one of the first case that is wrong.
"""

from collections import Counter
from collections.abc import Iterator

from minikernel.exercise.exercises import COLS, exercises, hints_by_reason, known_cases
from minikernel.exercise.marks import (
    Coded,
    Marks,
    borrowed,
    exercise_of,
    is_as_fast,
    is_faster,
    is_moved,
    is_predicted,
    moved,
    wrong_cases,
)

HINTS_AT_ONCE = 3  # a learner mends one thing at a time
EXPLAINS_AN_END = ("width", "store_mask", "load_mask", "tile_too_small")  # what was wrong before its process crashed
# Patterns that say more than what a result looks like.
SURE = ("rank", "width", "maximum", "one_maximum", "cancellation", "large_difference")
LAYOUTS = {"transposed", "every other column", "a view off its start"}
RANKS = {"rank 1", "rank 4"}
FAR = {"far from zero", "rows apart"}
LANES = 8  # of a vector in C++
LOW_PRECISION = 5e-2  # an error below it, though wrong, is what 16-bit numbers leave
CONVERTS, GATHERS = ("aten::_to_copy", "aten::to."), ("aten::cat", "aten::stack")
NEAR_COPY, FAR_FROM_COPY = 0.9, 0.5  # shares of a copy's bandwidth between which different advice helps


def next_steps(marks: Marks) -> list[Coded]:
    """What to try next."""
    exercise = exercise_of(marks)
    if marks["unfilled"]:
        return [{"code": "begin", "exercise": exercise.name}]
    if marks["ended"]:
        ending = hints_by_reason("ended").get(marks["ended"]["code"], "not_loaded")
        before = [] if ending == "endless" else [name for name in _about_cases(marks) if name in EXPLAINS_AN_END]
        return [_hint(name) for name in dict.fromkeys([*before, ending])]
    if wrong_cases(marks):
        return [_hint(name) for name in dict.fromkeys(_about_cases(marks))][:HINTS_AT_ONCE]
    if not is_predicted(marks):
        return [_hint("predict")]
    if borrowed(marks):
        return [_hint("borrowed")]
    return _about_traffic(marks) or _about_speed(marks)


def _hint(name: str) -> Coded:
    return {"code": "hint", "name": name}


def _about_cases(marks: Marks) -> Iterator[str]:
    """What the wrong cases look like together; the first by itself where they look like nothing that is known."""
    wrong = wrong_cases(marks)
    if not wrong:
        return
    looks = Counter(row["reason"]["mistake"] for row in wrong if "mistake" in row["reason"])
    kinds = {row["reason"]["code"] for row in wrong}
    pattern = _pattern(marks, wrong)
    if pattern not in SURE and _raises_always(marks):
        yield "raises"
        return
    failed = [hint for kind, hint in hints_by_reason("failed").items() if kind in kinds]
    if pattern in SURE:
        said = [pattern, *failed]
    elif looks:
        said = [*failed, looks.most_common(1)[0][0]]
    else:
        said = [*failed, *([pattern] if pattern else []), *(["kept"] if kinds == {"not_kept"} else [])]
    yield from said
    if not said:  # a hint of one case is a guess, and a second guess sends to a mistake that nobody made
        known = known_cases(exercise_of(marks).operation)
        yield next(known[name].hint for name in known if name in {row["case"] for row in wrong})


def _raises_always(marks: Marks) -> bool:
    """Whether no ordinary row has a result: then nothing is known of what the function computes."""
    ordinary = [row["reason"] for row in marks["cases"] if row["case"] == "random"]
    return bool(ordinary) and all(reason and reason["code"] == "raised" for reason in ordinary)


def _pattern(marks: Marks, wrong: list[dict]) -> str | None:
    """What is said by which cases are wrong and which are right."""
    names = {row["case"] for row in wrong}
    right = {row["case"] for row in marks["cases"]} - names
    widths = {row["cols"] for row in marks["cases"] if row["case"] == "random"}
    wrong_widths = {row["cols"] for row in wrong if row["case"] == "random"}
    right_widths = widths - wrong_widths
    if names <= RANKS:
        return "rank"
    if names <= LAYOUTS:
        return "strides"
    if not wrong_widths:
        return _pattern_of_values(marks, wrong, names)
    if COLS in right_widths:
        if right_widths == {COLS}:
            return "width"
        if max(right_widths) < min(wrong_widths):
            return "tile_too_small"
        if all(cols % LANES for cols in wrong_widths) and not any(cols % LANES for cols in right_widths):
            return "remainder"
    if right_widths and not any(cols & (cols - 1) for cols in right_widths):
        errors = [row["reason"].get("error") for row in wrong if row["case"] == "random"]
        return "precision" if all(error and error < LOW_PRECISION for error in errors) else "load_mask"
    return "remainder" if not right_widths and "many rows" in right else None


def _pattern_of_values(marks: Marks, wrong: list[dict], names: set[str]) -> str | None:
    """What is said where ordinary rows are right at every width."""
    far = [row["reason"].get("error") for row in wrong if row["case"] in FAR]
    operation = exercise_of(marks).operation
    if far and operation in ("cross_entropy", "head_loss") and all(error and error < LOW_PRECISION for error in far):
        return "large_difference"
    known = known_cases(operation)
    if names >= FAR:
        return known["far from zero"].hint
    return known["rows apart"].hint if "rows apart" in names else None


def _about_traffic(marks: Marks) -> list[Coded]:
    exercise = exercise_of(marks)
    if not is_moved(marks):
        return [_hint("uncounted")] if not marks["timed"] else []
    row = marks["traffic"][0]
    reads, writes, operations = row["reads"], row["writes"], row["operations"]
    if exercise.operations and sum(operations.values()) > exercise.operations * row["rows"]:
        return [_hint("small_blocks")]
    if exercise.tile and row["tile"] > exercise.tile:
        return [_hint("tile")]
    if reads <= exercise.reads and writes <= exercise.writes:
        return []
    if any(name.startswith(CONVERTS) for name in operations):
        return [_hint("detour")]
    if any(name.startswith(GATHERS) for name in operations):
        return [_hint("gathered")]
    share = {"moved": moved(marks) or 1.0, "share": 1 / (moved(marks) or 1.0)}
    if exercise.cache_kib and exercise.means == "cpp":
        return [_hint("allocates" if writes <= exercise.writes else "reads_back")]
    if exercise.cache_kib:
        return [_hint("logits" if exercise.operation == "head_loss" else "blocks")]
    if operations and row["launches"]:
        return [_hint("besides")]
    if operations and exercise.means == "torch":
        return [_hint("twice")]
    if operations:
        return [{"code": "operations", "operations": sum(operations.values()), **share}]
    if writes > exercise.writes:
        return [_hint("writes")]
    return [_hint("three_passes" if exercise.tile else "second_read"), {"code": "passes", **share}]


def _about_speed(marks: Marks) -> list[Coded]:
    exercise = exercise_of(marks)
    if marks["untimed"]:
        return [{"code": "untimed"}]
    if exercise.means != "any":
        row = marks["timed"][-1] if marks["timed"] else None
        if row and exercise.faster_than and is_faster(row) is not True:
            inside = is_faster(row) is None
            return [_hint("within_noise" if inside else f"slow_{exercise.name}")]
        names = list(exercises())
        following = names[names.index(exercise.name) + 1]
        return [{"code": "finished", "next": exercises()[following].source}]
    if not marks["timed"]:
        return [{"code": "gpu"}, *_about_long_rows(marks)]
    small, large = marks["timed"][0], marks["timed"][-1]
    if is_as_fast(large):
        advice = [{"code": "register"}, *_about_long_rows(marks)]
        if not is_as_fast(small):
            advice.append({"code": "small", "rows": small["rows"], "ratio": small["ratio_to_reference"]})
        return advice
    share = large["fraction_of_copy"]
    how_near = "far" if share < FAR_FROM_COPY else "middle" if share < NEAR_COPY else "near"
    return [{"code": how_near, "shape": [large["rows"], large["cols"]], "share": share}]


def _about_long_rows(marks: Marks) -> list[Coded]:
    row = marks["traffic"][-1] if is_moved(marks) else None
    if row is None or row["reads"] <= exercise_of(marks).reads:
        return []
    return [{"code": "long_rows", "cols": row["cols"], "reads": row["reads"]}]
