"""Works out what the survey of the four patterns says; `templates/survey_25.md` says it.

Every figure is of a `distributed.json`, and every judgement is decided by the figures.
"""

import re
from math import prod
from statistics import median

from minicompile.report import words
from minicompile.report.words import is_stale
from minilab.device import is_cpu, short_name
from minilab.templates import render
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


def labels(language: str) -> Translations:
    """Return the labels of the survey and of its picture."""
    return Translations("minicompile.report", "survey", language)


def survey(artefacts: list[dict], minigpt: MiniGPTConfig, language: str = "en") -> str:
    """Write `results/25/DISTRIBUTED.md`, in Markdown.

    Args:
        artefacts: a `distributed.json` of each device shown; the first GPU, or else the first, is the headline.
        minigpt: the sizes of the lab's own model, for which a pattern is picked.
        language: of the text.
    """
    text, ordered = labels(language), in_order(artefacts)
    head = ordered[0]
    ranks = min(run["ranks"] for run in head["runs"])
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    every_run = [(artefact, run) for artefact in ordered for run in artefact["runs"]]
    values = {
        "head": head,
        "steps": len(head["single"]["losses"]),
        "loss": max(run["loss_max_rel_difference"] for _, run in every_run),
        "loss_allowed": max(artefact["loss_rtol"] for artefact in ordered),
        "rows": [row for artefact in ordered for row in table_rows(text, artefact)],
        "runs": len(every_run),
        "wrong": [
            {"pattern": run["pattern"], "place": place(text, artefact), "ranks": run["ranks"]}
            for artefact, run in every_run
            if not run["matches_formula"]
        ],
        "left_out": [{"place": place(text, artefact), **left} for artefact in ordered for left in artefact["left_out"]],
        "api": API,
        "noise": max(map(spread, ordered)),
        "threads": max((artefact["threads"] for artefact in ordered if artefact["backend"] == "gloo"), default=None),
        "cost": {pattern: _collectives(text, run) for pattern, run in runs.items()},
        "bubble": {"idle": ranks - 1, "slots": head["microbatches"] + ranks - 1},
        "pick": {"place": place(text, head), **pick(head, ranks, minigpt)},
        "sources": ordered,
    }
    filters = {**words.filters(language), "pattern": lambda name: text(f"names.{name}")}
    filters["memory"] = lambda source: text(f"memory.{source}")
    return re.sub(r"\n{3,}", "\n\n", render("minicompile.report", "survey_25", language, values, filters=filters))


def in_order(artefacts: list[dict]) -> list[dict]:
    """Sort GPUs first, each kind in the order given."""
    return sorted(artefacts, key=lambda artefact: is_cpu(artefact["provenance"]["device"]))


def place(text: Translations, artefact: dict) -> str:
    """Name the hardware shortly, and say whether its figures are stale."""
    hardware = artefact["provenance"]["hardware"]
    name = short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"])
    return text("stale", name=name) if is_stale(artefact) else name


def table_rows(text: Translations, artefact: dict) -> list[dict]:
    """Return one row for one process and one for each run: `times` is the speed over one process's, None for itself."""
    alone, here = artefact["single"], place(text, artefact)
    return [
        {
            "where": text("ranks", place=here, ranks=run["ranks"]) if run["ranks"] > 1 else here,
            "pattern": run["pattern"],
            "tokens_per_s": run["tokens_per_s"],
            "times": None if run is alone else run["tokens_per_s"] / alone["tokens_per_s"],
            "memory": max(run["peak_memory_bytes"]),
            "collectives": _collectives(text, run),
            "sent": max(run["sent_bytes"]),
        }
        for run in [alone, *artefact["runs"]]
    ]


def pick(head: dict, ranks: int, minigpt: MiniGPTConfig) -> dict:
    """Pick a pattern for MiniGPT, by its size first and by what was measured second.

    Returns:
        `parameters` and `state_bytes` of MiniGPT, whether it `fits` on a small device, the `shard_bytes` that FSDP2
        leaves on each of `ranks`, the `factor` of DDP over one process, the `fastest` pattern, and the `verdict` on a
        second rank: `noise`, `pays` or `costs`.
    """
    parameters = sum(prod(shape) for shape in minigpt.shapes.values())
    state = STATE_BYTES * parameters
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    factor = runs["ddp"]["tokens_per_s"] / head["single"]["tokens_per_s"]
    within_noise = max(factor, 1 / factor) < spread(head)
    return {
        "parameters": parameters,
        "state_bytes": state,
        "fits": 2 * state <= SMALL_DEVICE,
        "shard_bytes": state / ranks,
        "ranks": ranks,
        "factor": factor,
        "fastest": max(runs, key=lambda pattern: runs[pattern]["tokens_per_s"]),
        "verdict": "noise" if within_noise else "pays" if factor > 1 else "costs",
    }


def spread(artefact: dict) -> float:
    """Measure the noise of its timing: a run's median step over its fastest, the largest over all runs."""
    return max(
        median(run["step_seconds"]) / min(run["step_seconds"]) for run in [artefact["single"], *artefact["runs"]]
    )


def _collectives(text: Translations, run: dict) -> str:
    """Say what the busiest rank communicates: `21 all-reduces (9.4 MB)`."""
    busiest = max(run["collectives"], key=lambda counts: sum(entry["bytes"] for entry in counts.values()))
    said = []
    for kind, entry in sorted(busiest.items()):
        key = f"collectives.{kind}" if f"collectives.{kind}" in text else "collectives.unknown"
        name, size = kind.replace("_", "-"), words.size(text.language, entry["bytes"])
        said.append(text(key, count=entry["count"], name=name, size=size))
    return ", ".join(said) or text("collectives.none")
