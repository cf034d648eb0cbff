"""What the port's training shows, in sentences that follow from its figures: a section of the report."""

from minicompile.profile.report import WITHIN_NOISE


def interpretation(training: dict) -> list[str]:
    """Honest sentences on one `training.json`: whether the sides learn the same, and what compiling cost and gained."""
    return [*_same(training), *_speed(training), *_compile(training["compile"])]


def _same(training: dict) -> list[str]:
    apart, numpy, steps = training["largest_difference"], training["numpy"], training["steps"][-1]
    from_numpy = numpy["largest_difference"]
    sentences = [
        f"Over {steps} steps the losses of eager and compiled are never further apart than {apart['nats']:.1e} nats "
        f"(step {apart['step']}); NumPy's, from the same weights on the same rows, are within {from_numpy['nats']:.1e} "
        f"nats of eager's."
    ]
    ends = {name: training[name]["held_out_cross_entropy"] for name in ("eager", "compiled")}
    reached = (
        f"Trained eager the model ends at {ends['eager']:.4f} nats on held-out text, compiled at {ends['compiled']:.4f}"
    )
    if numpy["held_out_cross_entropy"] is not None:
        entropy = training["conditional_entropy"]
        reached += f", NumPy's {numpy['held_out_cross_entropy']:.4f}; the grammar's own entropy is {entropy:.4f}"
    return [*sentences, reached + "."]


def _speed(training: dict) -> list[str]:
    eager, compiled = training["eager"], training["compiled"]
    if not training["compile"]["compiled"]:
        return []
    ratio = compiled["tokens_per_second"] / eager["tokens_per_second"]
    rates = f"{compiled['tokens_per_second']:,.0f} tokens a second against {eager['tokens_per_second']:,.0f}"
    waited = compiled["first_step_seconds"] - eager["first_step_seconds"]
    first = f"its first step comes {waited:.1f} s later"
    if ratio <= 1 + WITHIN_NOISE:
        verdict = "as fast as eager" if ratio >= 1 - WITHIN_NOISE else "**slower** than eager"
        return [f"Compiled trains {verdict}, {rates}, and {first}: here compiling buys nothing."]
    paid_back = waited / (1 / eager["tokens_per_second"] - 1 / compiled["tokens_per_second"])
    run = training["tokens"][-1]
    when = "within this run" if paid_back <= run else f"more than this run's {run:,}"
    return [
        f"Compiled trains {ratio:.2f} times as fast, {rates}; {first}, which is paid back after {paid_back:,.0f} "
        f"tokens, {when}."
    ]


def _compile(report: dict) -> list[str]:
    if not report["compiled"]:
        return [
            f"The compile failed at the stage `{report['stage']}` ({report['reason']}): both sides ran eager, and what "
            f"sets them apart is noise."
        ]
    sentences = []
    if report["recompiles"]:
        sentences.append(
            f"`maybe_compile` counted {len(report['recompiles'])} recompile"
            f"{'s' if len(report['recompiles']) > 1 else ''}, for {report['graphs']} graphs in all: the phases of the "
            f"training differ in the shape of a batch."
        )
    if report["graph_breaks"]:
        sentences.append(f"There were {len(report['graph_breaks'])} graph breaks: {'; '.join(report['graph_breaks'])}.")
    return sentences
