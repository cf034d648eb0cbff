"""The survey of the four patterns: every figure from `distributed.json`, every judgement decided by the figures.

This module works out what there is to say; `templates/survey_25.md` and `locale/` say it.
"""

import re
from math import prod
from statistics import median

from minicompile.pages import render, retold
from minilab.device import is_cpu, short_name
from minilab.translations import Translations
from minimodel.model_config import MiniGPTConfig

# Names to use in torch 2.11 to 2.13, older ones that it still has but no longer recommends, and those that are gone.
API = {
    "ddp": {
        "today": "torch.nn.parallel.DistributedDataParallel",
        "superseded": "torch.nn.DataParallel",
    },
    "fsdp": {
        "today": "torch.distributed.fsdp.fully_shard",
        "superseded": "torch.distributed.fsdp.FullyShardedDataParallel",
    },
    "tp": {
        "today": "torch.distributed.tensor.parallel.parallelize_module",
        "gone": "torch.distributed.tensor.parallel.PairwiseParallel",
    },
    "pp": {
        "today": "torch.distributed.pipelining.PipelineStage",
        "gone": "torch.distributed.pipeline.sync.Pipe",
    },
}
STATE_BYTES = 16  # a parameter in float32, its gradient and AdamW's two moments
SMALL_DEVICE = 8 * 1024**3  # bytes: what a small GPU or laptop has


def words(language: str) -> Translations:
    """The words of the survey and of its picture."""
    return Translations("minicompile", "survey", language)


def survey(artefacts: list[dict], minigpt: MiniGPTConfig, language: str = "en") -> str:
    """Write `results/25/DISTRIBUTED.md`, in Markdown.

    Args:
        artefacts: a `distributed.json` of each device shown; the first GPU, or else the first, is the headline.
        minigpt: the sizes of the lab's own model, for which a pattern is picked.
        language: of the text.
    """
    text = words(language)
    ordered = in_order(artefacts)
    head = ordered[0]
    ranks = min(run["ranks"] for run in head["runs"])
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    values = {
        "intro": _intro(text, head),
        "loss": _loss(text, ordered),
        "rows": [row for artefact in ordered for row in table_rows(text, artefact)],
        "verdict": _verdict(text, ordered),
        "left_out": [
            {"device": place(text, artefact), **left} for artefact in ordered for left in artefact["left_out"]
        ],
        "api": API,
        "noise": _noise(text, ordered),
        "cost": {pattern: _collectives(text, run) for pattern, run in runs.items()},
        "bubble": {"idle": ranks - 1, "slots": head["microbatches"] + ranks - 1},
        "pick": pick(text, head, ranks, minigpt),
        "sources": [_source(text, artefact) for artefact in ordered],
    }
    return re.sub(r"\n{3,}", "\n\n", render("survey_25", language, values))


def in_order(artefacts: list[dict]) -> list[dict]:
    """GPUs first, each kind in the order given."""
    return sorted(artefacts, key=lambda artefact: is_cpu(artefact["provenance"]["device"]))


def place(text: Translations, artefact: dict) -> str:
    """The hardware's short name, and whether its figures are stale."""
    hardware = artefact["provenance"]["hardware"]
    name = short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"])
    return text("stale", name=name) if artefact.get("restored", {}).get("stale") else name


def table_rows(text: Translations, artefact: dict) -> list[dict]:
    """One row for one process and one for each run, every cell a string."""
    alone, here = artefact["single"], place(text, artefact)
    return [
        {
            "where": text("ranks", place=here, ranks=run["ranks"]) if run["ranks"] > 1 else here,
            "pattern": text(f"names.{run['pattern']}"),
            "tokens_per_s": text.number(run["tokens_per_s"], ",.0f") + _times(text, run, alone),
            "memory": _size(text, max(run["peak_memory_bytes"])),
            "collectives": _collectives(text, run),
            "sent": _size(text, max(run["sent_bytes"])),
        }
        for run in [alone, *artefact["runs"]]
    ]


def pick(text: Translations, head: dict, ranks: int, minigpt: MiniGPTConfig) -> str:
    """Which pattern MiniGPT wants, by its size first and by what was measured second."""
    parameters = sum(prod(shape) for shape in minigpt.shapes.values())
    state = STATE_BYTES * parameters
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    fastest = max(runs, key=lambda pattern: runs[pattern]["tokens_per_s"])
    factor = runs["ddp"]["tokens_per_s"] / head["single"]["tokens_per_s"]
    opening = text("pick.opening", parameters=text.number(parameters, ","), state=_size(text, state))
    if 2 * state > SMALL_DEVICE:
        first = text("pick.shard", opening=opening, shard=_size(text, state / ranks), ranks=ranks)
    else:
        first = text("pick.whole", opening=opening)
    measured = text(
        "pick.measured",
        place=place(text, head),
        factor=text.number(factor, ".2f"),
        ranks=ranks,
        fastest=text(f"names.{fastest}"),
    )
    if max(factor, 1 / factor) < spread(head):
        last = text("pick.noise")
    else:
        last = text("pick.pays" if factor > 1 else "pick.costs")
    return f"{first} {measured} {last}"


def _intro(text: Translations, head: dict) -> str:
    model = head["model"]
    return text(
        "intro",
        layers=model["n_layer"],
        width=model["n_embd"],
        words=text.number(model["vocab_size"], ","),
        parameters=text.number(model["parameters"] / 1e6, ",.1f"),
        steps=len(head["single"]["losses"]),
        tokens=text.number(head["batch"] * model["block_size"], ","),
    )


def _loss(text: Translations, artefacts: list[dict]) -> str:
    worst = max(run["loss_max_rel_difference"] for artefact in artefacts for run in artefact["runs"])
    allowed = max(artefact["loss_rtol"] for artefact in artefacts)
    return text("loss", worst=text.number(worst, ".1e"), allowed=text.number(allowed, ".0e"))


def _verdict(text: Translations, artefacts: list[dict]) -> str:
    runs = [(artefact, run) for artefact in artefacts for run in artefact["runs"]]
    wrong = [
        text("verdict.run", pattern=text(f"names.{run['pattern']}"), place=place(text, artefact), ranks=run["ranks"])
        for artefact, run in runs
        if not run["matches_formula"]
    ]
    return text("verdict.wrong", runs=", ".join(wrong)) if wrong else text("verdict.right", count=len(runs))


def spread(artefact: dict) -> float:
    """The noise of its timing: a run's median step over its fastest, the largest over all runs."""
    return max(
        median(run["step_seconds"]) / min(run["step_seconds"]) for run in [artefact["single"], *artefact["runs"]]
    )


def _noise(text: Translations, artefacts: list[dict]) -> str:
    """What to know before comparing times: their noise, and what a rank is where devices are shared."""
    sentence = text("noise", spread=text.number(max(map(spread, artefacts)), ".2f"))
    cpus = [artefact for artefact in artefacts if artefact["backend"] == "gloo"]
    if not cpus:
        return sentence
    return f"{sentence} {text('threads', count=max(artefact['threads'] for artefact in cpus))}"


def _source(text: Translations, artefact: dict) -> str:
    """Where, when and with what an artefact was measured, and whether that still holds."""
    provenance, restored, told = artefact["provenance"], artefact.get("restored"), retold(text.language)
    made = text(
        "source.made",
        device=provenance["device"],
        date=provenance["date"][:10],
        torch=provenance["versions"]["torch"],
        backend=artefact["backend"],
        memory=told(artefact["memory_from"]),
    )
    if restored is None:
        return text("source.measured", made=made)
    if restored["stale"]:
        return text("source.stale", made=made, path=restored["from"], reasons="; ".join(map(told, restored["reasons"])))
    return text("source.fresh", made=made, path=restored["from"])


def _times(text: Translations, run: dict, alone: dict) -> str:
    return "" if run is alone else f" ({text.number(run['tokens_per_s'] / alone['tokens_per_s'], '.2f')}x)"


def _collectives(text: Translations, run: dict) -> str:
    """The busiest rank's collectives in words: `21 all-reduces (9.4 MB)`."""
    busiest = max(run["collectives"], key=lambda counts: sum(entry["bytes"] for entry in counts.values()))
    said = []
    for kind, entry in sorted(busiest.items()):
        key = f"collectives.{kind}" if f"collectives.{kind}" in text else "collectives.unknown"
        name, size = kind.replace("_", "-"), _size(text, entry["bytes"])
        said.append(text(key, count=entry["count"], name=name, size=size))
    return ", ".join(said) or text("collectives.none")


def _size(text: Translations, size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{text.number(size / scale, '.3g')} {unit}"
    return f"{size:.0f} B"
