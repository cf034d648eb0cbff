"""Write what_if/{knob}.html: a question, then both sides of a what-if, in one file that asks nothing of the network."""

import re
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from minicompile.explain.explorer.highlight import PLAIN, highlight
from minicompile.explain.explorer.render import marked
from minicompile.explain.what_if.claims import direction, found_of_time, label, rows
from minicompile.explain.wording import Wording
from minilab.files import write_text
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text

PACKAGE = "minicompile.explain.what_if"
SIDES = ("before", "after")
RUN = re.compile(r"([a-z])(\d+)")


class _Words:
    """The sentences of a what-if in one language."""

    def __init__(self, found: dict, language: str) -> None:
        self.text = Translations("minicompile.explain", "what_if", language)
        self.found, self.knob = found, found["knob"]["name"]

    def number(self, value: float | None) -> str:
        return self.text("unknown") if value is None else self.text.number(value, ",")

    def counted(self, name: str, value: int | None) -> str:
        """A count with its unit: `34 launches`."""
        if value is None:
            return self.text("unknown")
        return self.text(f"counted.{label(self.found, name)}", count=value, shown=self.number(value))

    def of_knob(self, what: str) -> str:
        """The `title` of the knob, or what it `does`; a switch that nobody wrote words for says what it is set to."""
        key = f"knob.{self.knob}.{what}"
        return self.text(key) if key in self.text else self.text(f"switch.{what}", setting=self.setting("after"))

    def setting(self, side: str) -> str:
        """What one side was compiled with."""
        if change := self.found["knob"]["change"]:
            return self.text(f"change.{change}.{side}")
        return ", ".join(f"`{name}={value}`" for name, value in self.found[side]["settings"].items())

    def answer(self) -> str:
        """What became of the count that was asked for."""
        name = self.found["knob"]["asks"]
        before, after = (self.found[side]["counts"][name] for side in SIDES)
        way = direction(before, after)
        fields = {"before": self.counted(name, before), "after": self.counted(name, after)}
        return self.text(f"answer.{way}", **fields)

    def time(self) -> str:
        """What the clock says, and nothing more than it can tell."""
        code = found_of_time(self.found)
        time = self.found["time"] or {}
        fields = {
            name: self.text.number(time[key], ",.1f")
            for name, key in (("before", "before_us"), ("after", "after_us"), ("noise", "noise_us"))
            if key in time
        }
        if time:
            fields["difference"] = self.text.number(abs(time["difference_us"]), ",.1f")
        return self.text(f"time.{code}", **fields)

    def changes(self) -> list[str]:
        """How the code differs, a sentence for each kind of change that there is."""
        if self.found["same_code"]:
            return [self.text("changes.none")]
        told = [
            self.text(f"changes.{what}", count=count, shown=self.number(count))
            for what, count in self.found["changes"].items()
            if count
        ]
        return told or [self.text("changes.outside")]


def _panes(side: dict) -> list[dict]:
    """A side's code by graph: lines with their token classes and whether they stand in a kernel that changed."""
    panes = []
    for graph in side["graphs"]:
        lines, classes = graph["lines"], highlight(graph["lines"], "python")
        changed: dict[int, str] = {}
        for kernel in graph["kernels"]:
            body = slice(kernel["first"] - 1, kernel["last"])
            classes[body] = highlight(lines[body], kernel["language"])
            if kernel["changed"]:
                changed |= dict.fromkeys(range(kernel["first"], kernel["last"] + 1), kernel["name"])
        starts = {kernel["first"]: kernel["name"] for kernel in graph["kernels"]}
        shown = [
            {
                "number": number,
                "tokens": _tokens(line, kinds),
                "changed": number in changed,
                "start": starts.get(number),
            }
            for number, (line, kinds) in enumerate(zip(lines, classes, strict=True), 1)
        ]
        panes.append({"id": graph["id"], "lines": shown, "kernels": graph["kernels"]})
    return panes


def _tokens(line: str, classes: str) -> list[tuple[str, str]]:
    """Runs of one class, as `highlight` codes them: (class, or "" where plain, and text)."""
    runs, at = [], 0
    for letter, length in RUN.findall(classes):
        runs.append(("" if letter == PLAIN else letter, line[at : at + int(length)]))
        at += int(length)
    return [*runs, ("", line[at:])] if at < len(line) else runs


def render_what_if(found: dict, path: str | Path, language: str = "en") -> None:
    """Write the page of one what-if.

    Args:
        found: as `minicompile.flipping.what_if` returns it (schemas/what_if.schema.yaml).
        path: of the HTML file.
        language: of the page.
    """
    words = _Words(found, language)
    asked = found["knob"]["asks"]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["marked"] = marked
    before, after = (found[side]["counts"][asked] for side in SIDES)
    html = environment.from_string(asset(PACKAGE, "what_if.html")).render(
        text=words.text,
        words=words,
        language=language,
        found=found,
        label=Wording(language).target({"code": found["target"]["kind"], "gpu": found["target"]["gpu"]}),
        asked=asked,
        direction=direction(before, after),
        before=before,
        after=after,
        rows=[(label(found, name), pair) for name, pair in rows(found)],
        panes={side: _panes(found[side]) for side in SIDES},
        base=base_style(),
        style=Markup(asset(PACKAGE, "what_if.css")),
        program=script_text(("minilab.pages", "theme.js"), (PACKAGE, "what_if.js")),
        sentences=embedded_json(words.text.under("program")),
    )
    write_text(path, html)


def summary(found: dict, language: str = "en") -> str:
    """Both sides of a what-if as a table of plain text, and what the clock says."""
    words = _Words(found, language)
    table = [(words.text("page.count"), *(words.text(f"page.{side}") for side in SIDES))]
    table += [(words.text(f"count.{label(found, name)}"), *map(words.number, pair)) for name, pair in rows(found)]
    widths = [max(len(line[place]) for line in table) for place in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}".rstrip() for name, before, after in table
    ]
    title = words.of_knob("title")
    sides = [f"{words.text(f'page.{side}')}: {words.setting(side)}".replace("`", "") for side in SIDES]
    return "\n".join(
        [f"{found['model']['name']}: {title}".replace("`", ""), *sides, *lines, words.time(), *words.changes()]
    )
