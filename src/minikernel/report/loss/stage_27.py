"""Write stage 27's report: every figure from `loss.json` and `loss_correctness.json` of each device that is shown.

This module works out what there is to say; the template `report_27` and its twin say it, each figure on one.
"""

import re
from collections.abc import Callable, Sequence

from minikernel.reasons import in_words
from minikernel.report.loss.views import EAGER, LAB, RIGHT, SHORT, WRONG, Place, Shown, origin, over, shown, table
from minilab.pages import templates
from minilab.pages.translations import Translations
from minilab.records.words import worded

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
TIMES_FASTER, TIMES_LEANER = 2.0, 10.0  # than eager, on a CPU: one of the two


def report_27(losses: Sequence[dict], verdicts: Sequence[dict], language: str = "en") -> str:
    """Write `results/27/README.md`, in Markdown.

    Args:
        losses, verdicts: `loss.json` and `loss_correctness.json` of the same devices, in the same order.
        language: of the page.
    """
    text = words(language)
    devices = [device_view(made, judged) for made, judged in zip(losses, verdicts, strict=True)]
    values = {
        "text": text,
        "devices": devices,
        "on_gpu": any(made["provenance"]["hardware"]["gpu"] for made in losses),
        "rounded": rounded(verdicts),
    }
    return filled("report_27", language, values)


def rounded(verdicts: Sequence[dict]) -> float | None:
    """How many times what bfloat16 must have eager's error is, where it is most; None where it never is more."""
    rows = [row for made in verdicts for row in made["cases"] if (row["who"], row["dtype"]) == (EAGER, "bfloat16")]
    return max((times for row in rows if row["verdict"] == WRONG and (times := over(row)) is not None), default=None)


def words(language: str) -> Translations:
    """The words of the picture and of the tables."""
    return Translations("minikernel.report", "loss", language)


def filled(template: str, language: str, values: dict) -> str:
    """A template of this room's, without the blank lines of parts that are absent."""
    page = templates.render("minikernel.report", template, language, values, filters=filters(values["text"]))
    return re.sub(r"\n{3,}", "\n\n", page).rstrip() + "\n"


def filters(text: Translations) -> dict[str, Callable]:
    """Name of a filter -> what it makes of a value, in the language of `text`."""
    number = text.number

    def verdicts(found: dict) -> str:
        """A cell: `right`, how many times over in which dtype, `refused`, or `not tried`."""
        wrong = [f"{one['dtype']} {times(one['over'])}" for one in found["wrong"]]
        if wrong:
            return ", ".join(wrong)
        if found["right"]:
            return text("right")
        return text("refused" if found["refused"] else "not_tried")

    def times(factor: float | None) -> str:
        form = ".2g" if factor is not None and factor < 99.5 else ",.0f"
        form = ".2f" if factor is not None and 1 < factor < 1.095 else form  # no "1 times"
        return text("in_kind") if factor is None else text("times", times=number(factor, form))

    def memory(mib: float | None) -> str:
        return "–" if mib is None else number(mib, ",.2g" if mib < 99.5 else ",.0f")

    return {
        "number": number,
        "ms": lambda us: number(us / 1e3, ",.3g" if us < 999_500 else ",.0f"),
        "mib": memory,
        "error": lambda value: "–" if value is None else number(value, ".1e"),
        "shape": lambda place: " x ".join(number(size, ",") for size in (place.m, place.d, place.v)),
        "short": SHORT.__getitem__,
        "verdicts": verdicts,
        "cases_table": lambda found: cases_table(found, text),
        "times": times,
        "reason": lambda reason: in_words(quoted(reason), text.language),
        "stale_reason": lambda reason: worded(reason, text.language),
    }


def device_view(made: dict, judged: dict) -> dict:
    """What there is to say of one device."""
    seen = shown(made)
    return {
        "seen": seen,
        "on_cpu": not made["provenance"]["hardware"]["gpu"],
        "places": [place_view(place) for place in seen.places if place.rows],
        "missing": [place for place in seen.places if not place.rows],
        "refused": refusals(seen),
        "noise": max((row["noise_floor"] for row in made["rows"] if row["refused"] is None), default=0.0),
        **verdict_view(judged),
    }


def verdict_view(judged: dict) -> dict:
    """What there is to say of who is right on one device."""
    made = table(judged)
    everywhere = [
        who for who in made["who"] if made["counts"][who] == {RIGHT: len(of_one(judged, who)), "wrong": 0, "refused": 0}
    ]
    widths = sorted({row["d"] for row in judged["cases"] if row["case"] == "plain"})
    return {"table": made, "right": everywhere, "widths": widths, "versions": judged["versions"], **origin(judged)}


def cases_table(found: dict, text: Translations) -> str:
    """The cases as a table in Markdown, a column for each who was judged.

    Args:
        found: as `views.table` gives it.
    """
    say, who = filters(text)["verdicts"], found["who"]
    rows = [[text("case_column"), *(f"`{name}`" for name in who)], ["---"] * (len(who) + 1)]
    for case, by_who in found["cases"].items():
        rows.append([text(f"case.{case}"), *(say(by_who[name]) if name in by_who else "–" for name in who)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def of_one(judged: dict, who: str) -> list[dict]:
    """One's rows."""
    return [row for row in judged["cases"] if row["who"] == who]


def place_view(place: Place) -> dict:
    """One shape: the lab beside eager, and beside the fastest and the leanest of all."""
    ours, eager, peer = place.rows.get(LAB), place.rows.get(EAGER), place.fastest(others=True)
    over_eager = eager["median_us"] / ours["median_us"] if ours and eager else None
    memory = ratio(eager, ours)
    return {
        "place": place,
        "rows": sorted(place.rows.values(), key=lambda row: row["median_us"]),
        "forward": place.forward,
        "fastest": place.fastest(),
        "leanest": place.leanest(),
        "ours": ours,
        "peer": peer,
        "times": peer["median_us"] / ours["median_us"] if ours and peer else None,
        "over_eager": over_eager,
        # however the two lie, the noise could have put them the other way round
        "within_noise": ours is not None
        and over_eager is not None
        and max(over_eager, 1 / over_eager) - 1 <= ours["noise_floor"],
        "memory": memory,
        "bar": reached(over_eager, memory),
    }


def reached(faster: float | None, leaner: float | None) -> str:
    """By what the lab reaches on a CPU what it is to reach there: `time`, `memory`, or `nothing`."""
    if (faster or 0.0) >= TIMES_FASTER:
        return "time"
    return "memory" if (leaner or 0.0) >= TIMES_LEANER else "nothing"


def ratio(eager: dict | None, ours: dict | None) -> float | None:
    """How many times the lab's memory eager takes; None where either is not known, or where the lab's is nothing."""
    if not (eager and ours and eager["peak_mib"] and ours["peak_mib"]):
        return None
    return eager["peak_mib"] / ours["peak_mib"]


def refusals(seen: Shown) -> list[dict]:
    """Who was timed nowhere or only somewhere, with the reason, once each."""
    found: dict[tuple, dict] = {}
    for place in seen.places:
        for who, reason in place.refused.items():
            # the milliseconds of somebody too slow differ from shape to shape: each is said
            one = {"who": who, "reason": reason, "places": []}
            found.setdefault((who, str(sorted(quoted(reason).items()))), one)["places"].append(place)
    return [{**one, "all": len(one["places"]) == len(seen.places)} for one in found.values()]


def quoted(reason: dict) -> dict:
    """A reason as a page has it: what somebody else's code said is a quotation, without addresses in its memory."""
    if reason["code"] != "raised":
        return reason
    said = ADDRESS.sub("", reason["text"]).replace("`", "'")
    return {**reason, "text": f"`{said}`"}
