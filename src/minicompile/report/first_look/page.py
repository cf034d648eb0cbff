"""Write the first look: one page, and in a folder beside it the explorer and the timeline that it shows."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from markupsafe import Markup

from minicompile.explain.explorer import render_explorer
from minicompile.explain.explorer.questions import questions
from minicompile.report.first_look.findings import findings
from minicompile.report.first_look.records import Card, Recorded, is_checkout
from minikernel.report import roofline_plot
from minikernel.report.model.timeline import timeline_page
from minilab.files import read_object, write_text
from minilab.pages.templates import environment
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text
from minilab.plan import LOOKED_AT
from minilab.records.provenance import stale_reasons
from minilab.site.contents import data_url
from minilab.site.render import with_code
from minilab.site.states import NOT_ASKED, RESTORED, STALE, State
from minilab.site.views import reasons_of, said_of
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.opening import load_checkpoint
from minimodel.tokenizer import Tokenizer
from minimodel.writing.command import SENTENCE_ENDS
from minimodel.writing.generate import generate
from minimodel.writing.shipped import SHIPPED

PACKAGE = "minicompile.report.first_look"
PAGE = Path("results/first_look.html")
PROMPTS = ("Yesterday I", "Every day I", "Tomorrow I")  # one verb in three tenses
COMMANDS = {  # to run next -> the name of the sentence on it
    'minigpt "Yesterday I"': "minigpt",
    "snakemake --cores 4 results/24/roofline.png": "roofline",
    "snakemake --cores 2 exercise": "exercise",
    "minicompile explore SCRIPT": "explore",
    "snakemake --cores 4": "all",
}
WAY_BACK = re.compile(r'<a href="README\.md">.*?</a>')  # of the timeline, to a report that is not built here


class Words:
    """The page's own words, and the front door's for where a result comes from."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.own = Translations("minicompile.report", "first_look", language)
        self.lab = Translations("minilab", "lab", language)

    def origin(self, made: dict) -> dict:
        """What the page says of where a restored artefact comes from: as the front door does, where it is known whether
        it is stale."""
        provenance, restored = made["provenance"], made["restored"]
        if restored["stale"] is None:
            says = self.own("unjudged.says", date=provenance["date"][:10], device=provenance["device"])
            return {"kind": NOT_ASKED, "badge": self.own("unjudged.badge"), "says": says, "reasons": []}
        kind = STALE if restored["stale"] else RESTORED
        state = State(kind, provenance["date"][:10], provenance["device"], tuple(restored["reasons"]))
        return {
            "kind": kind,
            "badge": self.lab(f"state.{kind}"),
            "says": said_of(state, self.lab),
            "reasons": reasons_of(state, self.lab),
        }


def write_first_look(
    held: Recorded, config: dict, page: Path = PAGE, language: str | None = None, home: str | None = None
) -> None:
    """Write the page, the explorer and the timeline.

    Args:
        held: what the records hold.
        config: the whole configuration.
        page: the page's file; the other two go into a folder beside it that has its name without the ending.
        language: of all of it; the configuration's by default.
        home: the address, from the page, of the lab's pages, where the page is one of them.
    """
    words, beside = Words(language or config["language"]), page.with_suffix("")
    template = environment(PACKAGE, words.language, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters["code"] = with_code
    html = template.get_template("first_look.html").render(
        text=words.own,
        lab=words.lab,
        language=words.language,
        home=home,
        **summary(held, words),
        origins=[words.origin(one.of) for one in findings(held)],
        checkpoint=checkpoint_view(config, words),
        cards=[card_view(card, words) for card in held.cards],
        explorer=draw_explorer(held, beside / "explorer.html", words.language),
        timeline=draw_timeline(held, beside / "timeline.html", page, words),
        read=[{"path": path, **words.origin(made)} for path, made in held.read.items()],
        base=base_style(),
        style=Markup(asset("minilab.site", "lab.css") + asset(PACKAGE, "first_look.css")),
        program=script_text(("minilab.pages", "theme.js")),
        themes=embedded_json({name: words.lab(f"program.{name}") for name in ("light", "dark")}),
    )
    write_text(page, html)


def summary(held: Recorded, words: Words) -> dict[str, Any]:
    """What can be said without a picture: the `texts` that MiniGPT writes, the `sentences` found, `commands` to run."""
    return {
        "texts": [written(prompt) for prompt in PROMPTS],
        "sentences": [words.own(f"finding.{one.code}", **one.fields) for one in findings(held)],
        "commands": [{"run": command, "says": words.own(f"next.{name}")} for command, name in COMMANDS.items()],
    }


def written(prompt: str) -> dict[str, str]:
    """What MiniGPT writes after a prompt, up to the end of its sentence: `prompt`, and `text` which follows it."""
    checkpoint = load_checkpoint(SHIPPED)
    tokenizer = Tokenizer(checkpoint.tokens or [])
    given = tokenizer.encode(prompt, bos=True)
    ids = generate(NumpyMiniGPT.from_checkpoint(checkpoint), [given], checkpoint.config.block_size - len(given))[0]
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode([*given[1:], *map(int, ids[:end])])
        if text[-1] in SENTENCE_ENDS:
            break
    return {"prompt": prompt, "text": text[len(prompt) :]}


def checkpoint_view(config: dict, words: Words) -> dict:
    """What is said of the checkpoint that writes: its description, and what has changed since it was trained."""
    described = read_object(SHIPPED.with_suffix(".json"))
    made = described["provenance"]
    today = {name: config[name] for name in made["params"]}
    reasons = stale_reasons(made, today, results=False) if is_checkout() else []
    origin = words.origin({"provenance": made, "restored": {"stale": bool(reasons), "reasons": reasons}})
    says = words.own("written.trained", date=made["date"][:10], excess=described["excess_percent"] / 100)
    return {**described, "origin": {**origin, "says": says}}


def card_view(card: Card, words: Words) -> dict:
    """A card's roofline as a picture in the page, and the worst that is to be said of its records."""
    with TemporaryDirectory() as folder:
        svg = Path(folder, "roofline.svg")
        roofline_plot.draw([card.panel], svg.with_suffix(".png"), svg, words.language)
        picture = data_url(svg.read_bytes(), "image/svg+xml")
    behind = [card.of[name] for name in LOOKED_AT if name in card.of]
    worst = max(behind, key=lambda made: bool(made["restored"]["stale"]))
    return {"name": card.panel["name"], "picture": picture, "origin": words.origin(worst)}


def draw_explorer(held: Recorded, path: Path, language: str) -> dict | None:
    """Write the explorer; return its address from the page at its first question, with the question and the answer."""
    if held.capture is None:
        return None
    render_explorer(held.capture, path, profile=held.profile, language=language)
    asked = questions(held.capture, language)
    first = {"question": asked[0].question, "answer": asked[0].answer} if asked else {}
    address = f"{path.parent.name}/{path.name}" + (f"#ask/{asked[0].name}" if asked else "")
    return {"address": address, "model": held.capture["model"]["name"], "more": len(asked) - 1, **first}


def draw_timeline(held: Recorded, path: Path, page: Path, words: Words) -> str | None:
    """Write the timeline, whose way back is to the page; return its address from there."""
    if held.model is None or not held.model["timelines"]:
        return None
    back = f'<a href="../{page.name}" target="_top">{words.own("back")}</a>'
    write_text(path, WAY_BACK.sub(back, timeline_page(held.model, words.language)))
    return f"{path.parent.name}/{path.name}"
