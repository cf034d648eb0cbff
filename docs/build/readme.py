"""The figures in the README: what the record of the whole model holds, and how many statements were held to the code.

The README is written by hand but for these two parts; `python -m docs.build readme` writes them again.
"""

from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from docs.build.concept_pages import number
from docs.build.playbook import refresh
from minikernel.report.model.views import shown
from minilab.errors import LabError
from minilab.files import read_json

README, MODEL = Path("README.md"), Path("results/recorded/h200/26/model.json")
WIDTH = 120  # columns
EXPLAINED = Path(__file__).parent / "data/explained_models.json"
SECOND = Path(__file__).parent / "data/second_reading.json"


def rounded(value: float) -> str:
    """Write a rate with three digits: `128,000`."""
    return number(float(f"{value:.3g}"), ",.0f")


def one_launch(record: Path = MODEL) -> str:
    """Say how fast one text is written in one launch, beside the compiled model.

    Raises:
        LabError: the record has no such timing.
    """
    made = read_json(record)
    alone = {row["rung"]: row for row in made["generate"] if row["sequences"] == 1 and row["dtype"] == "float32"}
    if not {"one", "compile"} <= alone.keys():
        raise LabError(f"{record} has no text that was written alone by `one` and `compile`; measure stage 26 again.")
    one, compiled = alone["one"], alone["compile"]
    same = "Each word is the one that PyTorch's eager model writes." if one["same_tokens"] == 1 else ""
    return "### A text in one launch\n\n" + fill(
        "MiniGPT writes a whole text in one launch of one kernel. "
        f"On one {shown(made).name} it writes **{rounded(one['tokens_per_s'])} tokens a second**, one text at a time; "
        f"`torch.compile` with CUDA graphs writes {rounded(compiled['tokens_per_s'])} "
        f"(measured on {made['provenance']['date'][:10]}). {same}",
        WIDTH,
    )


def explained(data: Path = EXPLAINED, second: Path = SECOND) -> str:
    """Say how many statements about compiled models were held against the generated code, and how many it refutes."""
    rows = {key: row for key, row in read_json(data)["rows"].items() if row["captured"]}
    models = {key.split(".")[0] for key in rows}
    false = sum(len(row["false"]) for row in rows.values())
    held = sum(row["held"] for row in rows.values())
    read = [(told, one["told"][told]) for one in read_json(second).values() for told in one["told"]]
    found = {told: sum(one["false"] for how, one in read if how == told) for told in ("as facts", "by notes")}
    judged, unread = (sum(one[what] for _, one in read for what in whats) for whats in (("held", "false"), ("unread",)))
    return "### Statements about a compile, with their evidence\n\n" + fill(
        "What the lab says about a compile is held against the code that the compiler wrote: "
        f"{number(held, ',')} statements about {number(len(models))} models, of which {_refuted(false)}. A second "
        f"reading, which shares no code with the first, judged {number(judged, ',')} sentences: "
        f"**{number(found['as facts'])} false** of those said plainly, {number(found['by notes'])} of those said to "
        f"come from the compiler's own notes; for {number(unread, ',')} more it has no rule. "
        "[The table](docs/explained_models.md) has each model. Which kernel computes what is said plainly where the "
        "code was run beside the graph and has the same values; what the notes alone tell is said to be theirs. Byte "
        "counts come from the memory addresses that the kernels really read and write.",
        WIDTH,
    )


def _refuted(false: int) -> str:
    return f"**{number(false)} {'was' if false == 1 else 'were'} refuted**" if false else "**none was refuted**"


PARTS: dict[str, Callable[[], str]] = {"one_launch": one_launch, "explained": explained}


def written(text: str) -> str:
    """Return the README with its figures written again."""
    return refresh(text, PARTS)
