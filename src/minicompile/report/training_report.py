"""Works out what the port's training shows; `templates/training_sentences.md` says it.

A compile is paid back where both sides have trained on the same tokens in the same time, every compile counted: it is
where the lines of the picture meet (`training_plot`), or would meet if both went on as they do.
"""

from itertools import pairwise

from minicompile.profile.figures import judged
from minicompile.profile.verdict import SAME, SLOWER
from minicompile.report import words
from minilab.pages.templates import sentences

PAUSE = 5  # times what a stretch usually takes: such a stretch holds a compile


def interpretation(training: dict, language: str = "en") -> list[str]:
    """Say whether eager and compiled learn the same, and what compiling cost and gained: a sentence or two each."""
    found = training_findings(training)
    return sentences("minicompile.report", "training_sentences", language, found, filters=words.filters(language))


def training_findings(training: dict) -> list[dict]:
    """What a `training.json` shows, each as a `code` and its figures."""
    apart, numpy, compiled = training["largest_difference"], training["numpy"], training["compile"]
    same = {"steps": training["steps"][-1], **apart, "numpy_nats": numpy["largest_difference"]["nats"]}
    ends = {name: training[name]["held_out_cross_entropy"] for name in ("eager", "compiled", "numpy")}
    found = [
        {"code": "same_losses", **same},
        {"code": "held_out", **ends, "entropy": training["conditional_entropy"]},
    ]
    if training.get("loss") == "fused":
        found.insert(0, {"code": "fused"})
    if not compiled["compiled"]:
        return [*found, {"code": "failed", "stage": compiled["stage"], "failure": compiled["failure"]}]
    found.append(_speed(training))
    if compiled["recompiles"]:
        found.append({"code": "recompiles", "count": len(compiled["recompiles"]), "graphs": compiled["graphs"]})
    if compiled["graph_breaks"]:
        found.append({"code": "graph_breaks", "reasons": compiled["graph_breaks"]})
    return found


def _speed(training: dict) -> dict:
    eager, compiled = training["eager"], training["compiled"]
    sides = {"eager": eager["tokens_per_second"], "compiled": compiled["tokens_per_second"]}
    stretches = [_stretches(training, name) for name in sides]
    told, apart = judged(1 / sides["eager"], 1 / sides["compiled"], stretches)
    found = {
        **sides,
        "noise": apart,
        "waited": compiled["first_step_seconds"] - eager["first_step_seconds"],
        "later": pauses(training),
        "seconds": {name: training[name]["seconds"][-1] for name in sides},
    }
    if told in (SAME, SLOWER):
        return {"code": "as_fast" if told == SAME else "slower", **found}
    factor = sides["compiled"] / sides["eager"]
    return {
        "code": "faster",
        **found,
        "factor": factor,
        "paid_back": paid_back(training),
        "run": training["tokens"][-1],
    }


def _stretches(training: dict, name: str) -> list[float]:
    """Seconds a token of one side, stretch by stretch, after the first step."""
    seconds, tokens = (list(pairwise(values)) for values in (training[name]["seconds"], training["tokens"]))
    return [(end - start) / (last - first) for (start, end), (first, last) in zip(seconds, tokens, strict=True)]


def pauses(training: dict) -> list[dict]:
    """The compiles after the first step: the `first` and `last` step of a stretch that took far longer than the others,
    and the `seconds` by which it did."""
    taken, usual = _stretches(training, "compiled"), 1 / training["compiled"]["tokens_per_second"]
    tokens = [last - first for first, last in pairwise(training["tokens"])]
    return [
        {"first": before + 1, "last": last, "seconds": count * (seconds - usual)}
        for (before, last), seconds, count in zip(pairwise(training["steps"]), taken, tokens, strict=True)
        if seconds > PAUSE * usual
    ]


def paid_back(training: dict) -> float:
    """The tokens after which compiled has trained on as many as eager in the same time, and stays ahead.

    Between two readings of the clocks, and after the last, both go on at their usual rates.
    """
    eager, compiled = training["eager"], training["compiled"]
    behind = [late - early for late, early in zip(compiled["seconds"], eager["seconds"], strict=True)]
    tokens = training["tokens"]
    if behind[-1] > 0:
        saved = 1 / eager["tokens_per_second"] - 1 / compiled["tokens_per_second"]
        return tokens[-1] + behind[-1] / saved
    last = max((place for place, seconds in enumerate(behind) if seconds > 0), default=None)
    if last is None:
        return tokens[0]
    share = behind[last] / (behind[last] - behind[last + 1])
    return tokens[last] + share * (tokens[last + 1] - tokens[last])
