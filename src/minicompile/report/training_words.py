"""What the port's training shows, in sentences that follow from its figures: a section of the report."""

from minicompile.report.profile_report import WITHIN_NOISE
from minilab.translations import Translations


def interpretation(training: dict, language: str = "en") -> list[str]:
    """Honest sentences on one `training.json`: whether the sides learn the same, and what compiling cost and gained."""
    text = Translations("minicompile", "training", language)
    return [*_same(text, training), *_speed(text, training), *_compile(text, training["compile"])]


def _same(text: Translations, training: dict) -> list[str]:
    apart, numpy = training["largest_difference"], training["numpy"]
    same = text(
        "same",
        steps=training["steps"][-1],
        apart=text.number(apart["nats"], ".1e"),
        step=apart["step"],
        numpy=text.number(numpy["largest_difference"]["nats"], ".1e"),
    )
    ends = {
        name: text.number(training[name]["held_out_cross_entropy"], ".4f")
        for name in ("eager", "compiled", "numpy")
        if training[name]["held_out_cross_entropy"] is not None
    }
    if "numpy" not in ends:
        return [same, text("reached.two", **ends)]
    return [same, text("reached.three", **ends, entropy=text.number(training["conditional_entropy"], ".4f"))]


def _speed(text: Translations, training: dict) -> list[str]:
    eager, compiled = training["eager"], training["compiled"]
    if not training["compile"]["compiled"]:
        return []
    ratio = compiled["tokens_per_second"] / eager["tokens_per_second"]
    waited = compiled["first_step_seconds"] - eager["first_step_seconds"]
    rates = {name: text.number(training[name]["tokens_per_second"], ",.0f") for name in ("compiled", "eager")}
    said = {"rates": text("speed.rates", **rates), "waited": text.number(waited, ".1f")}
    if ratio <= 1 + WITHIN_NOISE:
        return [text("speed.as_fast" if ratio >= 1 - WITHIN_NOISE else "speed.slower", **said)]
    paid_back = waited / (1 / eager["tokens_per_second"] - 1 / compiled["tokens_per_second"])
    run = training["tokens"][-1]
    return [
        text(
            "speed.faster_here" if paid_back <= run else "speed.faster_beyond",
            **said,
            factor=text.number(ratio, ".2f"),
            paid_back=text.number(paid_back, ",.0f"),
            run=text.number(run, ","),
        )
    ]


def _compile(text: Translations, report: dict) -> list[str]:
    if not report["compiled"]:
        return [text("compile.failed", stage=report["stage"], reason=report["reason"])]
    sentences = []
    if report["recompiles"]:
        sentences.append(text("compile.recompiles", count=len(report["recompiles"]), graphs=report["graphs"]))
    if breaks := report["graph_breaks"]:
        sentences.append(text("compile.graph_breaks", count=len(breaks), reasons="; ".join(breaks)))
    return sentences
