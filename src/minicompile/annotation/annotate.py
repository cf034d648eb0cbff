"""`annotate`: a walkthrough of a capture's most interesting kernel, in Markdown, from the capture alone.

Five questions: what was fused, where the input is read, where the output is written, how it reduces, and what is not
there; then the kernel line by line. This module gathers the answers (annotation_facts, annotation_patterns,
annotation_lines); `templates/kernel_annotation.md` says them, and leaves out what the capture does not hold.
"""

import re

from minicompile.annotation import facts
from minicompile.annotation.choice import holds_softmax, most_interesting
from minicompile.annotation.lines import commented
from minicompile.annotation.patterns import not_as_named, reduction_kinds, said_of_all
from minicompile.annotation.view import KernelView
from minilab import templates


def annotate(capture: dict, notes: str | None = None) -> str:
    """Explain the most interesting kernel of a capture; `annotation_choice` says which that is.

    Args:
        capture: as `minicompile.lowering.capture.capture` makes it (schemas/capture.schema.yaml).
        notes: a learner's own, in Markdown, to be placed at the end as they stand.

    Returns:
        KERNEL_ANNOTATION.md's text. Where no kernel was generated it says so and lists the library's calls.
    """
    environment = templates.environment("minicompile", trim_blocks=True, lstrip_blocks=True)
    environment.filters["count"] = lambda value: f"{value:,}" if isinstance(value, int) else str(value)
    view = most_interesting(capture)
    text = environment.get_template("kernel_annotation.md").render(
        model=capture["model"],
        target=capture["target"],
        torch=capture["environment"]["versions"].get("torch", "of an unknown version"),
        **(_answers(view) if view else _library_only(capture)),
    )
    text = _spaced(text)
    return f"{text}\n## Notes\n\nOf whoever worked through this:\n\n{notes.strip()}\n" if notes else text


def _library_only(capture: dict) -> dict:
    return {"kernel": None, "calls": [call for graph in capture["graphs"] for call in graph["calls"]]}


def _answers(view: KernelView) -> dict:
    language, lines = view.kernel["language"], view.lines
    return {
        "kernel": view.kernel,
        "call": view.call,
        "direction": view.graph["direction"],
        "why": _why(view),
        "same_kernel": _same_kernel(view),
        "users_own": any(node["user_triton"] for node in view.scheduler_nodes),
        "operations": facts.operations(view),
        "views": [node["name"] for node in view.views],
        "elsewhere": facts.elsewhere(view),
        "groups": facts.groups(view),
        "decisions": facts.decisions(view),
        "reads": facts.reads(view),
        "writes": facts.writes(view),
        "absent": facts.absent(view),
        "assembly": view.kernel["assembly"],
        "variables": said_of_all(lines, "variables", language),
        "scratch": said_of_all(lines, "scratch", language),
        "expressions": said_of_all(lines, "expressions", language),
        "reductions": [
            {
                **reduction,
                "meaning": reduction_kinds().get(reduction["type"], {}).get("meaning"),
                "otherwise": not_as_named(reduction["type"], lines),
            }
            for reduction in facts.reductions(view)
        ],
        "commented": commented(view),
    }


def _why(view: KernelView) -> str:
    generated = [call for graph in view.capture["graphs"] for call in graph["calls"] if not call["extern"]]
    if len(generated) == 1:
        return "It is the only one that is not a library's."
    if holds_softmax(view):
        return "Its fused group holds a softmax's reduction; of those that do, no call moves more bytes."
    return "No kernel of Inductor's holds a softmax's reduction, and none computes more ATen operations."


def _same_kernel(view: KernelView) -> int | None:
    """How many calls of the graph share the kernel; None for one."""
    calls = sum(call["kernel"] == view.call["kernel"] for call in view.graph["calls"])
    return calls if calls > 1 else None


def _spaced(text: str) -> str:
    """Without blank lines at the ends or more than one at a time, code blocks aside."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    tidy = [part if part.startswith("```") else re.sub(r"\n{3,}", "\n\n", part) for part in parts]
    return "".join(tidy).strip() + "\n"
