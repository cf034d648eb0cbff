"""Fill the concept pages' templates with facts; no number is typed into a template."""

from pathlib import Path

import yaml

from docs.build import cpu_ladder
from docs.build.facts.card_facts import card_facts
from docs.build.facts.compiler_facts import compiler_facts
from docs.build.facts.float_facts import float_facts
from docs.build.facts.loss_facts import loss_facts
from docs.build.facts.model_facts import model_facts
from docs.build.facts.softmax_facts import softmax_facts
from docs.build.facts.training_facts import training_facts
from docs.build.figures import FIGURES, draw
from minicompile.report.first_look.page import Words, summary
from minicompile.report.first_look.records import recorded
from minilab.files import write_text
from minilab.pages import templates, translations
from minilab.records.artefact import RECORDED

PAGES = (
    "memory_bound",
    "reading_a_roofline",
    "reducing_a_row",
    "cpu_ladder",
    "floating_point",
    "inductor",
    "reading_kernels",
    "one_kernel",
    "a_training_step",
    "the_head_that_trains",
    "two_cards",
)
LADDER_PICTURE = "images/cpu_ladder.svg"
ON_THE_COMPILER = ("inductor", "reading_kernels")  # which quote the installed torch


def facts(recorded: Path, config: dict, capture: dict) -> dict:
    """Collect the facts that all pages quote.

    Args:
        recorded: the record of one GPU's stage 24, e.g. results/recorded/h200/24; that of stage 26 lies beside it.
        config: the lab's configuration.
        capture: of tiny_head for the simulated H200.
    """
    softmax = softmax_facts(recorded, config["roofline"]["headline"]["cuda"])
    return {
        "softmax": softmax,
        "floats": float_facts(config["equivalence"], softmax["cols"]),
        "compiler": compiler_facts(capture),
        "ladder": cpu_ladder.ladder_facts(),
        "model": model_facts(recorded.parent / "26"),
        "training": training_facts(recorded.parent / "26"),
        "loss": loss_facts(recorded),
        "cards": card_facts(recorded, config["roofline"]["headline"]["cuda"]),
        "record": recorded.as_posix(),
    }


def page(name: str, facts: dict) -> str:
    """Render one page as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"us": microseconds, "times": times, "percent": percent, "exponent": exponent}
    environment.filters["number"] = number
    return environment.get_template(f"{name}.md").render(**facts)


def first_look(config: dict) -> str:
    """Render the page of a first look, as Markdown."""
    held = recorded(config)
    shown = {"name": held.cards[0].panel["name"], "record": f"{RECORDED}/{held.cards[0].panel['device']}"}
    return page("first_look", {**shown, **summary(held, Words("en"))})


def write_pages(facts: dict, docs: Path) -> None:
    """Write every concept page and figure under a folder."""
    for name in PAGES:
        write_text(docs / "concepts" / f"{name}.md", page(name, facts))
    for name in FIGURES:
        draw(name, facts, docs / "images" / f"{name}.svg")
    cpu_ladder.draw(facts["ladder"], docs / LADDER_PICTURE)


def write_ladder(facts: dict, docs: Path) -> None:
    """Write the page on the CPU's ladder, and its picture, under a folder."""
    write_text(docs / "concepts/cpu_ladder.md", page("cpu_ladder", facts))
    cpu_ladder.draw(facts["ladder"], docs / LADDER_PICTURE)


def read_config(path: str | Path) -> dict:
    """Read the lab's configuration."""
    return yaml.safe_load(Path(path).read_text())


def number(value: float, form: str = "") -> str:
    """Write a number; these pages are English."""
    return translations.number("en", value, form)


def microseconds(value: float) -> str:
    """Write a time given in microseconds: `594 µs`, `15.1 ms`."""
    return f"{number(value, ',.3g')} µs" if value < 999.5 else f"{number(value / 1e3, ',.3g')} ms"


def times(factor: float) -> str:
    """Write a factor: `7.9 times`."""
    return f"{number(factor, '.2g' if factor < 99.5 else ',.0f')} times"


def percent(share: float) -> str:
    """Write a fraction as a percentage with three digits: `99.6 %`."""
    return f"{number(100 * share, '.3g')} %"


def exponent(value: float) -> str:
    """Write a small number: `4.8e-06`."""
    return number(value, ".1e")
