"""`annotate`: a walkthrough of a capture's most interesting kernel, in Markdown, from the capture alone.

Five questions: what was fused, where the input is read, where the output is written, how it reduces, and what is not
there; then the kernel line by line. This module gathers the answers (facts, patterns, lines);
`templates/kernel_annotation.md` says them, and leaves out what the capture does not hold.
"""

import re

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.choice import asked_for, most_interesting, returns_softmax
from minicompile.explain.annotation.choices import chosen
from minicompile.explain.annotation.headline import headline
from minicompile.explain.annotation.lines import commented
from minicompile.explain.annotation.patterns import meaning, not_as_named, said_of_all
from minicompile.explain.annotation.view import KernelView
from minicompile.explain.reading import refuse_no_capture
from minicompile.explain.summary import place_told
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Capture
from minicompile.lowering.inner_graphs import times, told
from minilab.pages.templates import render
from minilab.pages.translations import Translations


def annotate(capture: Capture, language: str = "en", *, kernel: str | None = None) -> str:
    """Explain one kernel of a capture; by default the most interesting, and `choice` says which that is.

    Args:
        capture: as `minicompile.lowering.capture.capture` makes it (schemas/capture.schema.yaml).
        kernel: the kernel's name, or the id of one of its calls.
        language: of the explanation.

    Returns:
        KERNEL_ANNOTATION.md's text. Where no kernel was generated it says so, and lists the library's calls or
        where Dynamo stopped.

    Raises:
        LabError: it is no capture, or has no such kernel.
    """
    refuse_no_capture(capture)
    words = Translations("minicompile.explain", "annotation", language)
    view = asked_for(capture, kernel, language) if kernel else most_interesting(capture, language)
    values = {
        "model": capture["model"],
        "target": capture["target"],
        "torch": capture["environment"]["versions"].get("torch", words("unknown_version")),
        **(_answers(view, kernel is not None) if view else _library_only(capture)),
    }
    wording = Wording(language)
    filters = {
        **wording.filters(),
        "count": lambda value: words.number(value, ",") if isinstance(value, int) else str(value),
        "told": lambda fact, under="values": wording.told(fact, under=under),
        "told_within": lambda fact: wording.told(fact, within=True),
    }
    values |= {
        "label": wording.label(capture),
        "notes": [*wording.at_the_head(capture), *wording.verified(capture["graphs"])],
    }
    return _spaced(render("minicompile.explain", "kernel_annotation", language, values, filters=filters, trimmed=True))


def with_notes(page: str, notes: str, language: str = "en") -> str:
    """Place a learner's own notes, in Markdown, at the end of an explanation, as they stand; there may be none."""
    title = Translations("minicompile.explain", "annotation", language)("notes")
    return f"{page}\n{title}\n\n{notes.strip()}\n" if notes else page


def _library_only(capture: Capture) -> dict:
    graphs = capture["graphs"]
    stops = [place_told(capture, one) for one in capture["graph_breaks"]]
    calls = [call for graph in graphs for call in graph["calls"]]
    inner = [fact for graph in graphs for fact in told(graph)]
    return {"kernel": None, "calls": calls, "inner_graphs": inner, "graphs": len(graphs), "stops": stops}


def _answers(view: KernelView, asked: bool) -> dict:
    language, lines = view.kernel["language"], view.lines
    calls = sum(times(call) for call in view.graph["calls"] if call["kernel"] == view.call["kernel"])
    return {
        "kernel": view.kernel,
        "call": view.call,
        "direction": view.graph["direction"],
        "why": view.words("why.asked") if asked else _why(view),
        "doubted": view.call.get("doubted", False),
        "headline": None if view.call.get("doubted") else headline(view),
        "evidence": view.evidence,
        "shown": _shown(view),
        "fused": facts.fused(view),
        "unfinished": facts.unfinished(view),
        "ordered": facts.ordered(view),
        "choices": [_told(view, fact) for fact in chosen(view)],
        "same_kernel": calls if calls > times(view.call) else None,
        "runs": Wording(view.reader).runs(view.call["runs"]) if "runs" in view.call else "",
        "users_own": any(node["user_triton"] for node in view.scheduler_nodes),
        "operations": facts.operations(view),
        "templates": facts.templates(view),
        "symbolic": view.symbolic,
        "views": [node["name"] for node in view.views],
        "elsewhere": facts.elsewhere(view),
        "groups": facts.groups(view),
        "decisions": facts.decisions(view),
        "reads": facts.reads(view),
        "writes": facts.writes(view),
        "nothing_given": facts.nothing_given(view),
        "absent": facts.absent(view),
        "assembly": view.kernel["assembly"],
        **{
            section: said_of_all(lines, section, language, view.reader)
            for section in ("variables", "scratch", "expressions")
        },
        "reductions": [
            {
                **reduction,
                "meaning": meaning(reduction["type"], view.reader),
                "otherwise": not_as_named(reduction["type"], lines, view.reader),
            }
            for reduction in facts.reductions(view)
        ],
        "commented": commented(view),
    }


def _why(view: KernelView) -> str:
    generated = [call for graph in view.capture["graphs"] for call in graph["calls"] if not call["extern"]]
    if len(generated) == 1:
        return view.words("why.only")
    rule = "softmax" if returns_softmax(view) else "largest"
    if view.call["bytes"] is None:  # symbolic, and so are the others'
        return view.words(f"why.{rule}_first")
    known = view.call["bytes_are"] == "touched" and all(call["bytes"] is not None for call in generated)
    # what is called several times may be the one because of that
    often = "_often" if any(times(call) != 1 for call in generated) else ""
    return view.words(f"why.{rule}{often}" if known else f"why.{rule}_bound{often}")


def _shown(view: KernelView) -> str:
    """How it is known which ATen nodes the kernel's lines and buffers belong to."""
    values = view.call.get("values")
    if values is None:
        return view.words("shown.unasked")
    if values["status"] != "verified":
        key = f"shown.why.{values['code']}"
        return view.words("shown.refused", why=view.words(key if key in view.words else "shown.why.other"))
    sampled = values["sampled"]
    return view.words(
        "shown.sampled" if sampled else "shown.verified",
        count=view.words.number(values["elements"], ","),
        inputs=view.graph["verified"]["inputs"],
        **(sampled or {}),
    )


def _told(view: KernelView, fact: dict) -> str:
    """A choice in words; names are marked as code."""
    fields: dict = {}
    for name, value in fact.items():
        if isinstance(value, dict):
            fields[name] = ", ".join(f"{key} = {one}" for key, one in value.items())
        elif isinstance(value, list):
            fields[name] = ", ".join(f"`{one}`" for one in value)
        elif isinstance(value, float):
            fields[name] = view.words.number(value, ".3g")
        else:
            fields[name] = value
    key = f"choices.{fields.pop('code')}"
    if (fact.get("margin") or fact.get("milliseconds")) and f"{key}_by" in view.words:
        key += "_by"
    return view.words(key, **fields)


def _spaced(text: str) -> str:
    """Without blank lines at the ends or more than one at a time, code blocks aside."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    tidy = [part if part.startswith("```") else re.sub(r"\n{3,}", "\n\n", part) for part in parts]
    return "".join(tidy).strip() + "\n"
