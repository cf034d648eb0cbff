"""The site's way into the explorers: which there are, and the questions and lines at which links open them."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minicompile.explain.explorer import render_explorer
from minicompile.explain.explorer.questions import Question, questions
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.profile.conclusions import profiled
from minicompile.watching.watched import read_watched
from minilab.files import read_object
from minilab.pages.translations import Translations
from minilab.records.artefact import artefact_recorded_at
from minilab.records.restore import flattened, reasons_by_kernel, todays
from minilab.yaml_files import read_yaml

EXPLORERS = "explorers.md"
RECORDED, BUILT = "results/recorded/*/25/*/watched.json.xz", "results/25/*/*/capture.json"


class Explorer(NamedTuple):
    """An explorer of the site.

    Attributes:
        title: the model, and what its code was made for.
        page: in the site.
        capture: what it shows.
        profile: the times that it shows, where there are any.
        questions: that it answers.
    """

    title: str
    page: Path
    capture: Capture
    profile: dict[str, Any] | None
    questions: list[Question]


def words(language: str) -> Translations:
    """The site's own words."""
    return Translations("docs.build", "site", language)


def explorers(root: Path, language: str) -> Iterator[Explorer]:
    """Each explorer that can be drawn here: of a record, or of a capture that was built here and is of none.

    Args:
        root: the lab.
        language: of titles and questions.
    """
    for path in (*sorted(root.glob(RECORDED)), *sorted(root.glob(BUILT))):
        recorded = path.suffix == ".xz"
        held: Any = recorded_capture(path.parent) if recorded else read_object(path)
        if recorded or "restored" not in held:
            title = words(language)("explorer", model=held["model"]["name"], label=Wording(language).label(held))
            page = path.relative_to(root).with_name("explorer.html")
            yield Explorer(title, page, held, _profile(path.parent), questions(held, language))


def recorded_capture(folder: Path) -> Any:
    """The capture that follows from what a record's folder holds of a compile."""
    path = folder / "watched.json.xz"
    watched = read_watched(path)
    return {**as_capture(watched), "provenance": watched["provenance"], "restored": _restored(path, watched)}


def _restored(path: Path, made: Mapping[str, Any]) -> dict[str, Any]:
    """What restoring a record adds to it: where it is from, and what has changed since. `made` is what it holds."""
    recorded, device = path.parents[3], path.parents[2]  # .../recorded/DEVICE/25/MODEL/NAME.json.xz
    entry, wildcards = artefact_recorded_at(path, recorded) or (None, {})
    today = todays(entry, read_yaml("config.yaml"), wildcards) if entry else {}
    reasons = flattened(reasons_by_kernel(dict(made), today, device, results=False))
    return {"from": str(path.parent), "stale": bool(reasons), "reasons": reasons}


def _profile(folder: Path) -> dict[str, Any] | None:
    path, built = folder / "profile_samples.json.xz", folder / "profile.json"
    if path.is_file():
        samples = read_object(path)
        return {**profiled(samples), "restored": _restored(path, samples)}
    return read_object(built) if built.is_file() else None


def address(explorer: Explorer, question: Question) -> str:
    """Where a link leads that opens an explorer at a question."""
    return f"{explorer.page}#ask/{question.name}"


def explorers_page(shown: Iterable[Explorer], language: str) -> str:
    """A page that opens each explorer at its questions, and at each of the things to see in it.

    Args:
        shown: the explorers of the site.
        language: of the sentences.
    """
    say = words(language)
    text = f"# {say('explorers')}\n\n{say('about')}\n"
    for one in shown:
        text += f"\n## {one.title}\n\n"
        text += "".join(f"- [{each.question}]({address(one, each)}) {each.answer}\n" for each in one.questions)
        text += f"\n{say('seen')}\n\n"
        for stop in tour([one.capture], language):
            at = f"{one.page}#{stop['capture']}/{stop['pane']}:{stop['line']}"
            text += f"- [{stop['title']}]({at}): {stop['text']}\n"
    return text


def draw(explorer: Explorer, language: str, target: Path) -> None:
    """Write an explorer's page into the site."""
    render_explorer(explorer.capture, target, profile=explorer.profile, language=language)


def start_page(shown: Iterable[Explorer], text: str, language: str) -> str:
    """The site's first page: the README, and in it, before its first heading, the questions of each explorer."""
    say, asked = words(language), ""
    for one in shown:
        if one.questions:
            asked += f"{say('asked', title=one.title)}\n\n"
            asked += "".join(f"- [{each.question}]({address(one, each)})\n" for each in one.questions) + "\n"
    if not asked:
        return text
    before, heading, after = text.partition("\n## ")
    return f"{before}\n## {say('ask')}\n\n{asked}[{say('all')}]({EXPLORERS})\n{heading}{after}"
