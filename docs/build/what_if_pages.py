"""Write docs/what_if: what each knob of torch.compile changes in MiniGPT, from what-ifs that have been run.

The results are large, since they hold both sides' code. What the pages quote of them is kept in data/what_if.json, by
knob and device: settings, counts, and how many lines of the code hold each text that is worth looking for.
"""

import re
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import Any

from minicompile.explain.what_if.claims import ROWS, direction, label
from minicompile.knobs import KNOBS, TABLE
from minilab.files import read_json, write_json, write_text
from minilab.pages import templates
from minilab.pages.translations import Translations

DATA = Path(__file__).parent / "data/what_if.json"
MODEL = "minigpt"
SIDES = ("before", "after")
# What to look for in the code, by knob; the pages say in how many lines of either side it stands.
MARKS = {
    "fusion": ["@triton_heuristics.", "for(int64_t"],
    "inplace_buffers": ["in_out_ptr0"],
    "online_softmax": ["online_softmax", "prepare_softmax"],
    "persistent_reductions": ["@triton_heuristics.persistent_reduction", "@triton_heuristics.reduction", "for r0_off"],
    "attention": ["scaled_dot_product", "extern_kernels.bmm", "exp()"],
    "dynamic_shapes": ["ks0", "ks1"],
    "epilogue_fusion": ["_micro_gemm", "tanh()"],
    "loop_order": [],
    "max_autotune": ["extern_kernels.bmm", "_micro_gemm"],
    "vectors": ["at::vec::Vectorized", "#pragma omp simd"],
}


def kept(found: dict) -> dict:
    """What the pages quote of one what-if, as `minicompile.flipping.what_if` returns it."""
    lines = {side: [line for graph in found[side]["graphs"] for line in graph["lines"]] for side in SIDES}
    return {
        "torch": found["torch"],
        "target": found["target"],
        **{side: {key: found[side][key] for key in ("settings", "counts", "bytes_at_most")} for side in SIDES},
        "kernels_changed": {
            side: sum(kernel["changed"] for graph in found[side]["graphs"] for kernel in graph["kernels"])
            for side in SIDES
        },
        "same_code": found["same_code"],
        "marks": {
            mark: [sum(mark in line for line in lines[side]) for side in SIDES] for mark in MARKS[found["knob"]["name"]]
        },
    }


def remember(results: Path, data: Path = DATA) -> None:
    """Add to what is kept the what-ifs of MiniGPT that lie under a folder of results; a device's newer one replaces."""
    known = read_json(data) if data.exists() else {}
    for path in sorted((results / "25" / MODEL).glob("*/what_if/*.json")):
        found = read_json(path)
        known.setdefault(found["knob"]["name"], {})[found["target"]["device"]] = kept(found)
    write_json(data, {name: dict(sorted(known[name].items())) for name in KNOBS if name in known})


def moved(pair: tuple[int | None, int | None]) -> str:
    """Say how a count moved: `rises from 34 to 66`, `falls from 13 to 12`, `stays 25`, `is not known`."""
    before, after = pair
    way = direction(before, after)
    if way == "same":
        return f"stays {before:,}"
    verbs = {"more": "rises", "fewer": "falls"}
    return "is not known" if way == "unknown" else f"{verbs[way]} from {before:,} to {after:,}"


def counted(entry: dict, name: str) -> tuple[int | None, int | None]:
    """One count of both sides."""
    return entry["before"]["counts"][name], entry["after"]["counts"][name]


def finding(entry: dict, asked: str) -> str:
    """Say what the flip does to the code on one device: to the count asked for, to the others, to the kernels."""
    if entry["same_code"]:
        return "The code is the same on either side, comments aside."
    text = Translations("minicompile.explain", "what_if")
    told = [f"The number of {text(f'count.{label(entry, asked)}')} {moved(counted(entry, asked))}."]
    others = [name for name in ROWS if name != asked and direction(*counted(entry, name)) not in ("same", "unknown")]
    if others:
        names = ", ".join(text(f"count.{name}") for name in others)
        told.append(f"{'This count moves' if len(others) == 1 else 'These counts move'} too: {names}.")
    return " ".join([*told, of_the_kernels(entry)])


def of_the_kernels(entry: dict) -> str:
    """Say how many kernels before are not among those after, or how many are new where all of them are."""
    gone, new = entry["kernels_changed"]["before"], entry["kernels_changed"]["after"]
    kernels = entry["before"]["counts"]["kernels"]
    if gone == kernels:
        return "None of the kernels before is among those after, word for word."
    if gone:
        one_or_more = "is" if gone == 1 else "are"
        return f"Of the {kernels:,} kernels before, {gone:,} {one_or_more} not among those after, word for word."
    if new:
        return f"All {kernels:,} kernels before are among those after, beside {new:,} new."
    return "The kernels are the same; the code that calls them differs."


def lines_with(pair: list[int]) -> str:
    """Say in how many lines a mark stands: `in 7 lines before and in no line after`."""
    words = [f"in {count or 'no':{',' if count else ''}} line{'s' if count > 1 else ''}" for count in pair]
    return f"{words[0]} before and {words[1]} after"


def wrapped(text: str) -> str:
    """Break the paragraphs of prose at 120 columns; tables, lists and code stay as they are."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    prose = [
        "".join(
            fill(words, 120, break_long_words=False, break_on_hyphens=False) if words[:1].isalpha() else words
            for words in re.split(r"(\n{2,})", part)
        )
        for part in parts[::2]
    ]
    return "".join(one for pair in zip_longest(prose, parts[1::2], fillvalue="") for one in pair)


def page(knob: str, data: dict[str, Any]) -> str:
    """Render one knob's page as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"finding": finding, "lines_with": lines_with}
    text = Translations("minicompile.explain", "what_if")
    values = {
        "knob": KNOBS[knob],
        "text": text,
        "devices": data.get(knob, {}),
        "rows": ROWS,
        "counted": counted,
        "label": label,
    }
    return wrapped(environment.get_template(f"what_if/{knob}.md").render(values).strip()) + "\n"


def index(data: dict[str, Any]) -> str:
    """Render the list of all knobs as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"moved": moved}
    text = Translations("minicompile.explain", "what_if")
    values = {"knobs": TABLE, "text": text, "data": data, "counted": counted}
    return environment.get_template("what_if/README.md").render(values).strip() + "\n"


def write_pages(data: dict[str, Any], docs: Path) -> None:
    """Write every knob's page and their index under a folder."""
    for knob in KNOBS:
        write_text(docs / "what_if" / f"{knob}.md", page(knob, data))
    write_text(docs / "what_if/README.md", index(data))
