"""Write over_time.html, one file that asks nothing of the network, and the same in lines of text."""

from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from minicompile.explain.explorer.render import marked
from minicompile.explain.over_time.compared import COUNTS
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Coded
from minilab.files import write_text
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style

PACKAGE = "minicompile.explain.over_time"
MANY = 6  # names that are listed; more are counted


class Words:
    """The sentences of a comparison in one language."""

    def __init__(self, language: str = "en") -> None:
        self.text, self._capture = Translations("minicompile.explain", "over_time", language), Wording(language)

    def number(self, value: float | None, form: str = ",") -> str:
        return self.text("none") if value is None else self.text.number(value, form)

    def shown(self, version: dict) -> str:
        """A version as it is installed, or as it was asked for."""
        return version["torch"] or version["asked"]

    def target(self, found: dict) -> str:
        return self._capture.target({"code": found["target"]["kind"], "gpu": found["target"]["gpu"]})

    def difference(self, one: dict) -> str:
        """What became of a count, without its reasons."""
        before, after = (self.number(one[side]) for side in ("before", "after"))
        return self.text("difference", count=self.text(f"count.{one['count']}"), before=before, after=after)

    def why(self, why: Coded) -> list[str]:
        """A reason in a sentence, and Inductor's own words beneath it where there are some."""
        code, fields = why["code"], {key: value for key, value in why.items() if key not in ("code", "way")}
        if code == "nodes":
            said = [
                self.text(f"why.nodes.{way}", count=len(why[way]), names=self._listed(why[way]))
                for way in ("more", "fewer")
                if why[way]
            ]
        elif code in ("nested", "joined"):
            count = {side: len(why[side]) for side in ("a", "b")}
            said = [self.text(f"why.{code}.{why['way']}", a=count["a"], b=count["b"])]
        else:
            said = [self.text(f"why.{code}.{why['way']}" if "way" in why else f"why.{code}", **fields)]
        refused = [self._capture.fusion(reason, named=False) for reason in why.get("reasons", ())]
        return [*said, self.text("why.refused", said=" ".join(refused))] if refused else said

    def reasons(self, one: dict) -> list[str]:
        """All of a difference's reasons, each once; one sentence where the captures hold none."""
        said = dict.fromkeys(line for why in one["why"] for line in self.why(why))
        return list(said) or [self.text("no_reason")]

    def grouped(self, step: dict) -> list[tuple[list[str], list[str]]]:
        """Differences with the same reasons together, and these reasons."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for one in step["differences"]:
            groups.setdefault(tuple(self.reasons(one)), []).append(self.difference(one))
        return [(said, list(reasons)) for reasons, said in groups.items()]

    def same(self, step: dict, sides: dict[str, str]) -> str | None:
        """That nothing differs, or no count does."""
        if step["same"]:
            return self.text("same", **sides)
        return None if step["differences"] else self.text("same_counts", **sides)

    def _listed(self, names: list[str]) -> str:
        listed = ", ".join(f"`{name}`" for name in names[:MANY])
        return listed if len(names) <= MANY else self.text("and_more", listed=listed, count=len(names) - MANY)


def sides(found: dict, step: dict, words: Words) -> dict[str, str]:
    """The two versions of a step, as they are shown."""
    by_name = {one["asked"]: words.shown(one) for one in found["versions"]}
    return {side: by_name.get(step[side], step[side]) for side in ("before", "after")}


def render_over_time(found: dict, path: str | Path, language: str = "en") -> None:
    """Write the page.

    Args:
        found: as `minicompile.explain.over_time.compared.over_time` returns it (schemas/over_time.schema.yaml).
        path: of the HTML file.
        language: of the page.
    """
    words = Words(language)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["marked"] = marked
    html = environment.from_string(asset(PACKAGE, "over_time.html")).render(
        found=found,
        language=language,
        words=words,
        text=words.text,
        counts=[name for name in COUNTS if any(one["counts"] and one["counts"][name] for one in found["versions"])],
        sides=lambda step: sides(found, step, words),
        base=base_style(),
        style=Markup(asset(PACKAGE, "over_time.css")),
    )
    write_text(path, html)


def told(found: dict, language: str = "en") -> str:
    """The comparison in lines of plain text: a line for each version, then what differs and why."""
    words, lines = Words(language), []
    for one in found["versions"]:
        if one["failed"]:
            lines.append(words.text("failed", version=one["asked"], said=one["failed"]))
            continue
        counted = [
            f"{words.text(f'short.{name}')} {words.number(one['counts'][name])}"
            for name in COUNTS
            if one["counts"][name] is not None
        ]
        lines.append(f"torch {words.shown(one)}: {', '.join(counted)}; {words.text('seconds', seconds=one['seconds'])}")
    for step in found["steps"]:
        named = sides(found, step, words)
        lines += ["", words.text("from_to", **named)]
        lines += [f"  {said}" for said in filter(None, [words.same(step, named)])]
        for differences, reasons in words.grouped(step):
            lines += [*(f"  {line}" for line in differences), *(f"    {line}" for line in reasons)]
    return "\n".join(lines).replace("`", "")
