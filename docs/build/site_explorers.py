"""The site's way into the explorers: which there are, and the questions and lines at which links open them."""

import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minicompile.explain.explorer import render_explorer
from minicompile.explain.explorer.questions import Question, questions
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Capture
from minilab.files import parse_json, read_object
from minilab.pages.translations import Translations

EXPLORERS = "explorers.md"
CAPTURES = ("results/recorded/*/25/*/capture.json.xz", "results/25/*/*/capture.json")


class Explorer(NamedTuple):
    """An explorer that is here.

    Attributes:
        title: the model, and what its code was made for.
        page: relative to the lab.
        capture: what it shows.
        questions: that it answers.
    """

    title: str
    page: Path
    capture: Capture
    questions: list[Question]


def words(language: str) -> Translations:
    """The site's own words."""
    return Translations("docs.build", "site", language)


def explorers(root: Path, language: str) -> Iterator[Explorer]:
    """Each explorer that is here, recorded or built; one that was built from a record is left out beside the record's.

    Args:
        root: the lab.
        language: of titles and questions.
    """
    seen = set()
    for capture in captures(root):
        packed = (root / capture).read_bytes()
        held = parse_json(lzma.decompress(packed) if capture.suffix == ".xz" else packed)
        label = Wording(language).label(held)
        title = words(language)("explorer", model=held["model"]["name"], label=label)
        shown = (held["model"]["name"], *held["target"].values())
        if shown not in seen or "restored" not in held:
            seen.add(shown)
            yield Explorer(title, capture.parent / "explorer.html", held, questions(held, language))


def captures(root: Path) -> list[Path]:
    """The captures, recorded or built here, that have an explorer beside them."""
    found = [path for pattern in CAPTURES for path in sorted(root.glob(pattern))]
    return [path.relative_to(root) for path in found if (path.parent / "explorer.html").is_file()]


def address(explorer: Explorer, question: Question) -> str:
    """Where a link leads that opens an explorer at a question."""
    return f"{explorer.page}#ask/{question.name}"


def explorers_page(root: Path, language: str) -> str:
    """A page that opens each explorer at its questions, and at each of the things to see in it.

    Args:
        root: the lab.
        language: of the sentences.
    """
    say = words(language)
    text = f"# {say('explorers')}\n\n{say('about')}\n"
    for one in explorers(root, language):
        text += f"\n## {one.title}\n\n"
        text += "".join(f"- [{each.question}]({address(one, each)}) {each.answer}\n" for each in one.questions)
        text += f"\n{say('seen')}\n\n"
        for stop in tour([one.capture], language):
            at = f"{one.page}#{stop['capture']}/{stop['pane']}:{stop['line']}"
            text += f"- [{stop['title']}]({at}): {stop['text']}\n"
    return text


def bring(root: Path, explorer: Explorer, language: str, target: Path) -> None:
    """Put an explorer's page into the site: as it is, or, recorded in English, drawn again in the site's language."""
    folder = (root / explorer.page).parent
    if language == "en" or "recorded" not in explorer.page.parts:
        shutil.copyfile(root / explorer.page, target)
        return
    measured = folder / "profile.json"
    profile = {**read_object(measured), "restored": {"from": str(folder)}} if measured.is_file() else None
    render_explorer(explorer.capture, target, profile=profile, language=language)


def start_page(root: Path, text: str, language: str) -> str:
    """The site's first page: the README, and in it, before its first heading, the questions of each explorer."""
    say, asked = words(language), ""
    for one in explorers(root, language):
        if one.questions:
            asked += f"{say('asked', title=one.title)}\n\n"
            asked += "".join(f"- [{each.question}]({address(one, each)})\n" for each in one.questions) + "\n"
    if not asked:
        return text
    before, heading, after = text.partition("\n## ")
    return f"{before}\n## {say('ask')}\n\n{asked}[{say('all')}]({EXPLORERS})\n{heading}{after}"
