"""Works out what the survey of the patterns says; `templates/survey_25.md` says it.

Every figure is of a `distributed.json`, and every judgement is decided by the figures.
"""

import re
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import NamedTuple

from minicompile.distributed.formulas import PIPELINES, activation_all_reduces, bubble_bound
from minicompile.report import words
from minicompile.report.profile_report import reliable
from minicompile.report.words import is_stale
from minilab.device import is_cpu
from minilab.pages.templates import render
from minilab.pages.translations import Translations
from minilab.yaml_files import own_yaml
from minimodel.model_config import MiniGPTConfig

# For each pattern the names to use in torch 2.11 to 2.13 (`today`), older ones that it still has but no longer
# recommends (`superseded`), and those that are `gone`.
API = own_yaml((Path(__file__).parent / "data/distributed_api.yaml").read_bytes())
STATE_BYTES = 16  # a parameter in float32, its gradient and AdamW's two moments
COLUMNS = ("ddp", "fsdp", "tp", "fsdp_tp", "pp")  # of tables of patterns; a pipeline's other schedules have their own
# What torch.distributed.pipelining calls a pipeline's schedules.
SCHEDULES = {
    "pp": "Schedule1F1B",
    "pp_interleaved": "ScheduleInterleaved1F1B",
    "pp_zb1p": "ScheduleInterleavedZeroBubble",
    "pp_zbv": "ScheduleZBVZeroBubble",
}
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
    text, devices = labels(language), in_order(artefacts)
    groups = [group for artefact in devices for group in grouped(artefact)]
    head = groups[0]
    every_run = [(group, run) for group in groups for run in group.runs.values()]
    values = {
        "head": head,
        "model": head.artefact["model"],
        "losses": largest_losses(groups),
        "rows": [{"where": where(text, group), "group": group} for group in groups],
        "unreliable": any(not reliable({"noise": group.noise}) for group in groups),
        "runs": len(every_run),
        "wrong": [(group, run["pattern"]) for group, run in every_run if not run["matches_formula"]],
        "not_bfloat16": [place(text, one) for one in devices if lacks_bfloat16(one)],
        "left_out": [{"place": place(text, one), **left} for one in devices for left in one["left_out"]],
        "two_alone": [place(text, one) for one in devices if two_alone(one)],
        "columns": [name for name in COLUMNS if name != "fsdp_tp" or any(name in group.runs for group in groups)],
        "grown": grown(groups, head),
        "api": API,
        "threads": max((one["threads"] for one in devices if one["backend"] == "gloo"), default=None),
        "here": place(text, head.artefact),
        "cost": {pattern: _collectives(text, run) for pattern, run in head.runs.items()},
        "mesh": mesh(text, groups, head.artefact),
        "dtypes": sorted(head.artefact["loss_rtol"]),
        "schedules": schedules(groups, head.artefact),
        "bubble": bubble(head),
        "tensor": all_reduces_alone(head),
        "pipeline": pipeline(head),
        "pick": pick(head, minigpt),
        "sources": devices,
    }
    filters = {**words.filters(language), "pattern": lambda name: text(f"names.{name}")}
    filters["memory"] = lambda source: text(f"memory.{source}")
    filters["where"] = partial(where, text)
    return re.sub(r"\n{3,}", "\n\n", render("minicompile.report", "survey_25", language, values, filters=filters))


class Group(NamedTuple):
    """The patterns on one number of ranks of one device in one dtype, beside one process in that dtype."""

    artefact: dict
    dtype: str
    ranks: int
    single: dict
    runs: dict[str, dict]

    def times(self, pattern: str) -> float:
        """How many times as fast as one process a pattern is."""
        return self.runs[pattern]["tokens_per_s"] / self.single["tokens_per_s"]

    @property
    def noise(self) -> float:
        """How far two timings of the same training lie apart, the largest over all: 0.01 is one percent."""
        return max(map(apart, (self.single, *self.runs.values())))


def grouped(artefact: dict) -> list[Group]:
    """Group what a device measured: fewest ranks first, bfloat16 before float32."""
    alone = {run["dtype"]: run for run in artefact["runs"] if run["pattern"] == "single"}
    found: dict[tuple[int, str], dict[str, dict]] = {}
    for run in artefact["runs"]:
        if run["pattern"] != "single":
            found.setdefault((run["ranks"], run["dtype"]), {})[run["pattern"]] = run
    return [Group(artefact, dtype, ranks, alone[dtype], runs) for (ranks, dtype), runs in sorted(found.items())]


def largest_losses(groups: list[Group]) -> list[dict]:
    """Find for each dtype how far a pattern's loss lies from one process's at most."""
    found: dict[str, list[float]] = {}
    for group in groups:
        apart = [run["loss_max_rel_difference"] for run in group.runs.values()]
        found.setdefault(group.dtype, []).extend(apart)
    return [{"dtype": dtype, "apart": max(apart)} for dtype, apart in found.items()]


def lacks_bfloat16(artefact: dict) -> bool:
    """Say whether a GPU's survey is of float32 only."""
    return artefact["backend"] == "nccl" and "bfloat16" not in artefact["loss_rtol"]


def two_alone(artefact: dict) -> bool:
    """Say whether a device was asked for two ranks and for no more."""
    return not artefact["left_out"] and all(run["ranks"] <= 2 for run in artefact["runs"])


def grown(groups: list[Group], head: Group) -> list[dict]:
    """Set each pattern on the headline's fewest ranks beside the same on its most, where these differ.

    Returns:
        Rows of a `pattern` and, each for the `fewest` and the `most`, `ranks` and the bytes that the rank which has
        most of them `holds` and `sends`.
    """
    alike = [group for group in groups if group.artefact is head.artefact and group.dtype == head.dtype]
    if (most := alike[-1]).ranks == head.ranks:
        return []
    return [
        {"pattern": pattern, "fewest": _side(head, pattern), "most": _side(most, pattern)}
        for pattern in COLUMNS
        if pattern in head.runs
    ]


def _side(group: Group, pattern: str) -> dict:
    run = group.runs[pattern]
    return {"ranks": group.ranks, "holds": max(run["peak_memory_bytes"]), "sends": max(run["sent_bytes"])}


def mesh(text: Translations, groups: list[Group], artefact: dict) -> dict | None:
    """Tell what FSDP2 x TP communicates on a device's fewest ranks that have it, and `where`; None where none has."""
    for group in groups:
        if group.artefact is artefact and "fsdp_tp" in group.runs:
            return {"cost": _collectives(text, group.runs["fsdp_tp"]), "where": where(text, group)}
    return None


def schedules(groups: list[Group], artefact: dict) -> list[dict]:
    """Set what each schedule's bubble allows beside what was measured.

    Returns:
        For each schedule its `name` in torch and `on` each number of a device's ranks the `bound`, and by dtype the
        speed-up `measured` and the `product` of the `factors`, where it was.
    """
    mine = [group for group in groups if group.artefact is artefact]
    return [
        {
            "name": SCHEDULES[pattern],
            "on": {
                ranks: {
                    "bound": bubble_bound(pattern, ranks, artefact["microbatches"]),
                    "measured": {
                        group.dtype: {"times": group.times(pattern), "product": factors(group, pattern)["product"]}
                        for group in mine
                        if group.ranks == ranks and pattern in group.runs
                    },
                }
                for ranks in sorted({group.ranks for group in mine})
            },
        }
        for pattern in PIPELINES
    ]


def apart(run: dict) -> float:
    """Measure how far a run's two rounds lie apart, by their median steps; each has half of the steps."""
    steps = run["step_seconds"]
    half = max(1, len(steps) // 2)
    first, second = median(steps[:half]), median(steps[-half:])
    return max(first, second) / min(first, second) - 1


def in_order(artefacts: list[dict]) -> list[dict]:
    """Sort GPUs first, each kind in the order given."""
    return sorted(artefacts, key=lambda artefact: is_cpu(artefact["provenance"]["device"]))


def place(text: Translations, artefact: dict) -> str:
    """Name the hardware shortly, and say whether its figures are stale."""
    name = words.origin(text.language, artefact)["name"]
    return text("stale", name=name) if is_stale(artefact) else name


def where(text: Translations, group: Group) -> str:
    """Name a group: `NVIDIA H200, 2 ranks, bfloat16`."""
    return text("where", place=place(text, group.artefact), ranks=group.ranks, dtype=group.dtype)


def all_reduces_alone(group: Group) -> dict:
    """Compute what tensor parallel's all-reduces of activations would take alone, and that over its step.

    Returns:
        `count` a step, `us` of all, their `share` of a step.
    """
    run = group.runs["tp"]
    count = activation_all_reduces(group.artefact["model"]["n_layer"])
    seconds = count * median(run["alone_seconds"])
    return {"count": count, "us": 1e6 * seconds, "share": seconds / median(run["step_seconds"])}


def bubble(group: Group) -> dict:
    """Count the `slots` of a pipelined step in 1F1B and the `idle` ones, each a forward and a backward pass.

    `bound` is the speed-up that these allow.
    """
    ranks, microbatches = group.ranks, group.artefact["microbatches"]
    return {"idle": ranks - 1, "slots": microbatches + ranks - 1, "bound": bubble_bound("pp", ranks, microbatches)}


def factors(group: Group, pattern: str) -> dict:
    """Split a pipeline's speed-up into what its bubble allows and what is lost besides.

    With N ranks, the idle share i of a step and the seconds b_r that rank r computes in a step, the speed-up over one
    process, which takes t, is about N (1 - i), times (mean b / max b), times (t / sum b).

    Returns:
        `bound`, `balance` and `split` (the three factors), and their `product`.
    """
    busy = _busy(group.runs[pattern])
    bound = bubble_bound(pattern, group.ranks, group.artefact["microbatches"])
    balance = sum(busy) / group.ranks / max(busy)
    split = median(group.single["step_seconds"]) / sum(busy)
    return {"bound": bound, "balance": balance, "split": split, "product": bound * balance * split}


def _busy(run: dict) -> list[float]:
    return [median(seconds) for seconds in run["busy_seconds_by_rank"]]


def pipeline(group: Group) -> dict:
    """Say what a pipeline in 1F1B gains, and why not more.

    Returns:
        Its `factors`, the `measured` speed-up, whether that and their product are the `same` within the noise, whether
        the bound is missed by more than the noise (`open`), `longest` over the shortest that a rank computes, whether
        the `last` rank, which holds the LM head, is the longest, the share of a step in which each rank computes
        nothing (`idle`), and of the hand-overs between two ranks the `count`, what one takes alone (`us`) and the
        `share` of a step that all do.
    """
    run, m = group.runs["pp"], group.artefact["microbatches"]
    busy, step, lost = _busy(run), median(run["step_seconds"]), factors(group, "pp")
    product, measured, crossing = lost["product"], group.times("pp"), median(run["alone_seconds"])
    return {
        **lost,
        "measured": measured,
        "open": lost["bound"] / measured - 1 > group.noise,
        "same": max(product / measured, measured / product) - 1 <= group.noise,
        "longest": max(busy) / min(busy),
        "last": busy[-1] == max(busy),
        "idle": [1 - seconds / step for seconds in busy],
        "count": 2 * m,
        "us": 1e6 * crossing,
        "share": 2 * m * crossing / step,
    }


def pick(head: Group, minigpt: MiniGPTConfig) -> dict:
    """Pick a pattern for MiniGPT, by its size first and by what was measured second.

    Returns:
        `parameters` and `state_bytes` of MiniGPT, whether it `fits` on a small device, the `shard_bytes` that FSDP2
        leaves on each of the ranks, the `factor` of DDP over one process, the `fastest` patterns (those within the
        noise of the first), and the `verdict` on a second rank: `noise`, `pays` or `costs`.
    """
    parameters = sum(prod(shape) for shape in minigpt.shapes.values())
    state = STATE_BYTES * parameters
    factor, best = head.times("ddp"), max(map(head.times, head.runs))
    within_noise = max(factor, 1 / factor) - 1 <= head.noise
    return {
        "parameters": parameters,
        "state_bytes": state,
        "fits": 2 * state <= SMALL_DEVICE,
        "shard_bytes": state / head.ranks,
        "factor": factor,
        "fastest": [pattern for pattern in head.runs if best / head.times(pattern) - 1 <= head.noise],
        "verdict": "noise" if within_noise else "pays" if factor > 1 else "costs",
    }


def _collectives(text: Translations, run: dict) -> str:
    """Say what the busiest rank communicates: `21 all-reduces (9.4 MB)`."""
    busiest = max(run["collectives"], key=lambda counts: sum(entry["bytes"] for entry in counts.values()))
    said = []
    for kind, entry in sorted(busiest.items()):
        key = f"collectives.{kind}" if f"collectives.{kind}" in text else "collectives.unknown"
        name, size = kind.replace("_", "-"), words.size(text.language, entry["bytes"])
        said.append(text(key, count=entry["count"], name=name, size=size))
    return ", ".join(said) or text("collectives.none")
