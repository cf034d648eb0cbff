"""Where a reader begins: three things to click, and what comes after them; `locale/*/lab.yaml` says why."""

import re
from collections.abc import Sequence
from pathlib import Path

from minilab.site.account import Job, match
from minilab.site.states import BUILT, State

EXERCISES = "exercises/README.md"
# Name of the sentence -> patterns of the file that it is about; the first file that is there is shown.
FIRST: dict[str, tuple[str, ...]] = {
    "kernels": ("results/24/README.md", "results/24/roofline.png"),
    "explorer": ("results/25/minigpt/{device}/explorer.html", "results/25/{model}/{device}/explorer.html"),
    "exercise": (EXERCISES,),
}
THEN: dict[str, tuple[str, ...]] = {
    "compiler": ("results/25/REPORT.md",),
    "model": ("results/26/README.md",),
    "timeline": ("results/26/timeline.html",),
    "survey": ("results/25/DISTRIBUTED.md",),
}
INDEX = Path("docs/README.md")  # names the concept pages in the order in which they are read
CONCEPT = re.compile(r"\]\((concepts/\w+\.md)\)")


def found(patterns: Sequence[str], jobs: Sequence[Job], states: Sequence[State]) -> str | None:
    """The first file that is there of those that patterns name, of several the one that was made here."""
    for pattern in patterns:
        if Path(pattern).exists():
            return pattern
        made = [
            (state.kind != BUILT, output.path)
            for job, state in zip(jobs, states, strict=True)
            for output in job.outputs
            if match(pattern, output.path) is not None and Path(output.path).exists()
        ]
        if made:
            return min(made)[1]
    return None


def concepts() -> list[str]:
    """The concept pages, in the order in which they are read; none where the docs are not here."""
    named = CONCEPT.findall(INDEX.read_text(encoding="utf-8")) if INDEX.exists() else []
    return [path for name in named if Path(path := f"{INDEX.parent.as_posix()}/{name}").exists()]
