"""What a marked exercise says: the steps that are done, what to try next, and the report.

`minikernel.exercise` finds the marks out; every sentence here follows from them.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from minilab import templates

ONE_PASS = 1.05  # reads and writes of each element up to which a kernel takes one pass
HINTS_AT_ONCE = 3  # a learner mends one thing at a time
BORROWED = ("aten::_softmax", "aten::_log_softmax", "aten::logsumexp")  # torch's own, which is not the learner's
NEAR_COPY, FAR_FROM_COPY = 0.9, 0.5  # shares of a copy's bandwidth between which different advice helps


class Step(NamedTuple):
    """One step of the exercise; `done` is None where it could not be judged, `why` says what decided."""

    number: int
    title: str
    done: bool | None
    why: str


@cache
def exercise_data() -> dict:
    """The steps, and each case's step and hint, from `data/exercise.yaml`."""
    return yaml.safe_load((files("minikernel") / "data/exercise.yaml").read_text())


def wrong_cases(marks: dict, step: int) -> list[dict]:
    """The cases that belong to a step and are wrong."""
    cases = exercise_data()["cases"]
    return [row for row in marks["cases"] if row["reason"] and cases[row["case"]]["step"] == step]


def is_right(marks: dict) -> bool:
    """Whether every case was judged and none is wrong."""
    return bool(marks["cases"]) and not any(row["reason"] for row in marks["cases"])


def borrowed(marks: dict) -> list[str]:
    """Which of torch's own softmaxes the function calls: what they do is not the learner's."""
    called = {operation for row in marks["traffic"] for operation in row["operations"]}
    return sorted(name.removeprefix("aten::") for name in called if name.startswith(BORROWED))


def steps(marks: dict) -> list[Step]:
    """The four steps, each with whether it is done and what decided it.

    Args:
        marks: as `minikernel.exercise.mark` gives them.
    """
    titles = exercise_data()["steps"]
    judged = [_right(marks, 1), _right(marks, 2), _one_pass(marks), _fast(marks)]
    return [Step(number, titles[number], *verdict) for number, verdict in enumerate(judged, 1)]


def _right(marks: dict, step: int) -> tuple[bool, str]:
    if not marks["cases"]:
        return False, marks["unfilled"] or marks["ended"]
    cases = exercise_data()["cases"]
    wrong, of = len(wrong_cases(marks, step)), sum(cases[row["case"]]["step"] == step for row in marks["cases"])
    return not wrong, f"{of - wrong} of {of} cases are right"


def _one_pass(marks: dict) -> tuple[bool | None, str]:
    if not is_right(marks):
        return False, "comes after step 2"
    if borrowed(marks):
        return False, f"it calls torch's own {', '.join(borrowed(marks))}; write one yourself"
    if not _moves(marks):
        return None, "passes are counted in PyTorch's operations and in Triton's interpreter; nothing was seen there"
    row = marks["traffic"][0]
    moved = f"{row['reads']:.3g} reads and {row['writes']:.3g} writes of each element at {row['cols']:,} columns"
    return row["reads"] <= ONE_PASS and row["writes"] <= ONE_PASS, moved


def _fast(marks: dict) -> tuple[bool | None, str]:
    if not is_right(marks):
        return False, "comes after step 2"
    if borrowed(marks):
        return False, "the time would be torch's, not yours"
    if not marks["timed"]:
        return None, marks["untimed"]
    row = marks["timed"][-1]
    shape = f"{row['rows']:,} x {row['cols']:,}"
    verdict = f"{row['ratio_to_reference']:.2f} of F.softmax's time at {shape}; noise {row['noise_floor']:.1%}"
    return row["ratio_to_reference"] <= 1 + row["noise_floor"], verdict


def _moves(marks: dict) -> bool:
    return bool(marks["traffic"]) and marks["traffic"][0]["reads"] > 0


def moved_bytes_ratio(marks: dict) -> float | None:
    """Bytes moved at the lab's width over the fewest possible, one read and one write; None where they are unknown."""
    if not _moves(marks) or not is_right(marks) or borrowed(marks):
        return None
    return max(1.0, (marks["traffic"][0]["reads"] + marks["traffic"][0]["writes"]) / 2)


def next_steps(marks: dict) -> list[str]:
    """What to try next, a sentence or two each, from what was measured; the most pressing first."""
    if marks["unfilled"]:
        return [
            "Write step 1 as the formula reads, exponentials over their sum; exercises/README.md has a frame in "
            "PyTorch, in Triton and in CUDA C."
        ]
    if marks["ended"]:
        return [
            "It did not get through the proof, and the sentence above says at which case. Look for a loop whose end "
            "depends on the data or the width, an index outside the tensor, or an import that fails."
        ]
    wrong = {row["case"] for step in (1, 2) for row in wrong_cases(marks, step)}
    if wrong:
        hints = [f"`{case}`: {about['hint']}" for case, about in exercise_data()["cases"].items() if case in wrong]
        return hints[:HINTS_AT_ONCE]
    if borrowed(marks):
        return ["Write the exponentials, the sum and the quotients yourself; torch's softmax is what you race against."]
    return _about_passes(marks) or _about_speed(marks)


def _about_passes(marks: dict) -> list[str]:
    if not _moves(marks):
        return []
    row = marks["traffic"][0]
    moved = (row["reads"] + row["writes"]) / 2
    if row["operations"] and moved > ONE_PASS:
        return [
            f"Each of PyTorch's {len(row['operations'])} operations reads its operand from memory and writes its "
            f"result there, {moved:.3g} times the bytes needed. One Triton kernel that does them all keeps the row in "
            "registers."
        ]
    if moved > ONE_PASS:
        return [
            f"It moves {moved:.3g} times the bytes needed, which caps it at {1 / moved:.0%} of a copy where no cache "
            "helps. Load the row once into one tile (BLOCK the next power of two above its length) and keep it."
        ]
    return []


def _about_speed(marks: dict) -> list[str]:
    if not marks["timed"]:
        return [
            "Time it where there is a GPU: the same command there times it and puts its dot on that GPU's roofline "
            "(docs/cluster.md for a cluster).",
            *_about_long_rows(marks),
        ]
    small, large = marks["timed"][0], marks["timed"][-1]
    share, shape = large["fraction_of_copy"], f"{large['rows']:,} x {large['cols']:,}"
    if large["ratio_to_reference"] <= 1 + large["noise_floor"]:
        advice = [
            "Put it among the lab's kernels: `kernels: {mine: {source: exercises/softmax_mine.py, function: softmax}}` "
            "in config.yaml."
        ]
        advice += _about_long_rows(marks)
        if small["ratio_to_reference"] > 1 + small["noise_floor"]:
            advice.append(
                f"At {small['rows']:,} rows it takes {small['ratio_to_reference']:.2f} of F.softmax's time: there the "
                "launch and the host decide; look at what your function does besides the launch."
            )
        return advice
    if share < FAR_FROM_COPY:
        return [
            f"At {shape} it reaches {share:.0%} of a copy. Neighbouring threads must read neighbouring addresses, and "
            "many rows must be in flight at once: compare src/minikernel/cuda/naive.cu with smem.cu."
        ]
    if share < NEAR_COPY:
        return [
            f"At {shape} it reaches {share:.0%} of a copy. Try other num_warps, several rows a program, 16-byte "
            "vectors; docs/how_to/your_own_kernel.md has how to let the lab tune them."
        ]
    return [f"At {shape} it reaches {share:.0%} of a copy: what is left is in the last percents of fused.cu."]


def _about_long_rows(marks: dict) -> list[str]:
    row = marks["traffic"][-1] if _moves(marks) else None
    if row is None or row["reads"] <= ONE_PASS:
        return []
    return [
        f"At {row['cols']:,} columns it reads each element {row['reads']:.3g} times: the row no longer fits where you "
        "keep it. src/minikernel/softmax_triton.py holds it in several tiles."
    ]


def report(marks: dict, device: str, picture: str) -> str:
    """The marked exercise in Markdown, from `templates/exercise.md`.

    Args:
        marks: as `minikernel.exercise.mark` gives them.
        device: slug of the machine that marked it.
        picture: the roofline's path, relative to the report.
    """
    rows = {(row["case"], row["cols"]): row for row in marks["cases"]}
    return (
        templates.environment("minikernel", trim_blocks=True, lstrip_blocks=True)
        .get_template("exercise.md")
        .render(
            marks=marks,
            device=device,
            steps=steps(marks),
            advice=next_steps(marks),
            picture=picture,
            cases=list(dict.fromkeys(row["case"] for row in marks["cases"])),
            widths=sorted({row["cols"] for row in marks["cases"]}),
            at=rows,
            wrong={row["case"]: row["reason"] for row in reversed(marks["cases"]) if row["reason"]},
        )
    )
