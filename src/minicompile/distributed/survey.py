"""The survey of the four patterns: every figure from `distributed.json`, every judgement decided by the figures.

This module works out what there is to say; `templates/survey_25.md` says it.
"""

import re
from math import prod
from statistics import median

from minilab import templates
from minilab.device import is_cpu, short_name
from minimodel.model_config import MiniGPTConfig

NAMES = {"single": "one process", "ddp": "DDP", "fsdp": "FSDP2", "tp": "TP", "pp": "PP"}
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
WORDS = {"recv": "receive"}
STATE_BYTES = 16  # a parameter in float32, its gradient and AdamW's two moments
SMALL_DEVICE = 8 * 1024**3  # bytes: what a small GPU or laptop has


def survey(artefacts: list[dict], minigpt: MiniGPTConfig) -> str:
    """Write `results/25/DISTRIBUTED.md`, in Markdown.

    Args:
        artefacts: a `distributed.json` of each device shown; the first GPU, or else the first, is the headline.
        minigpt: the sizes of the lab's own model, for which a pattern is picked.
    """
    ordered = in_order(artefacts)
    head = ordered[0]
    ranks = min(run["ranks"] for run in head["runs"])
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    environment = templates.environment("minicompile")
    text = environment.get_template("survey_25.md").render(
        intro=_intro(head),
        loss=_loss(ordered),
        rows=[row for artefact in ordered for row in table_rows(artefact)],
        verdict=_verdict(ordered),
        left_out=[{"device": place(artefact), **left} for artefact in ordered for left in artefact["left_out"]],
        api=API,
        noise=_noise(ordered),
        cost={pattern: _collectives(run) for pattern, run in runs.items()},
        bubble={"idle": ranks - 1, "slots": head["microbatches"] + ranks - 1},
        pick=pick(head, ranks, minigpt),
        sources=[_source(artefact) for artefact in ordered],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def in_order(artefacts: list[dict]) -> list[dict]:
    """GPUs first, each kind in the order given."""
    return sorted(artefacts, key=lambda artefact: is_cpu(artefact["provenance"]["device"]))


def place(artefact: dict) -> str:
    """The hardware's short name, and whether its figures are stale."""
    hardware = artefact["provenance"]["hardware"]
    name = short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"])
    return name + (" (stale)" if artefact.get("restored", {}).get("stale") else "")


def table_rows(artefact: dict) -> list[dict]:
    """One row for one process and one for each run, every cell a string."""
    alone = artefact["single"]
    return [
        {
            "where": place(artefact) + (f", {run['ranks']} ranks" if run["ranks"] > 1 else ""),
            "pattern": NAMES[run["pattern"]],
            "tokens_per_s": f"{run['tokens_per_s']:,.0f}" + _times(run, alone),
            "memory": _size(max(run["peak_memory_bytes"])),
            "collectives": _collectives(run),
            "sent": _size(max(run["sent_bytes"])),
        }
        for run in [alone, *artefact["runs"]]
    ]


def pick(head: dict, ranks: int, minigpt: MiniGPTConfig) -> str:
    """Which pattern MiniGPT wants, by its size first and by what was measured second."""
    parameters = sum(prod(shape) for shape in minigpt.shapes.values())
    state = STATE_BYTES * parameters
    runs = {run["pattern"]: run for run in head["runs"] if run["ranks"] == ranks}
    fastest = max(runs, key=lambda pattern: runs[pattern]["tokens_per_s"])
    factor = runs["ddp"]["tokens_per_s"] / head["single"]["tokens_per_s"]
    opening = f"MiniGPT has {parameters:,} parameters, with gradients and AdamW's moments {_size(state)} in float32"
    if 2 * state > SMALL_DEVICE:
        shard = _size(state / ranks)
        first = f"{opening}: too much for a small device, so FSDP2, which leaves {shard} on each of {ranks} ranks."
    else:
        first = f"{opening}: it fits wherever PyTorch does, so nothing needs to be sharded or cut, and DDP is my pick."
    measured = (
        f"On {place(head)} the widened model ran {factor:.2f} times as fast under DDP on {ranks} ranks as on one; "
        f"{NAMES[fastest]} was the fastest of the four."
    )
    if max(factor, 1 / factor) < spread(head):
        last = "That difference is within the noise, so one process, the simplest, is the better choice here."
    elif factor > 1:
        last = (
            "So a second rank pays here at that width; MiniGPT itself is smaller, and I would time one process first."
        )
    else:
        last = "So here even DDP costs more than it brings, and one process is the better choice."
    return f"{first} {measured} {last}"


def _intro(head: dict) -> str:
    model = head["model"]
    tokens = head["batch"] * model["block_size"]
    return (
        f"MiniGPT, widened to {model['n_layer']} blocks of width {model['n_embd']} and {model['vocab_size']:,} words "
        f"({model['parameters'] / 1e6:,.1f} million parameters), is trained for {len(head['single']['losses'])} steps "
        f"of {tokens:,} tokens in one process, then under each of the four patterns."
    )


def _loss(artefacts: list[dict]) -> str:
    worst = max(run["loss_max_rel_difference"] for artefact in artefacts for run in artefact["runs"])
    allowed = max(artefact["loss_rtol"] for artefact in artefacts)
    return f"within {worst:.1e} of the single process's, relative to it ({allowed:.0e} is allowed)"


def _verdict(artefacts: list[dict]) -> str:
    runs = [(artefact, run) for artefact in artefacts for run in artefact["runs"]]
    wrong = [
        f"{NAMES[run['pattern']]} on {place(artefact)}, {run['ranks']} ranks"
        for artefact, run in runs
        if not run["matches_formula"]
    ]
    if wrong:
        return f"Calls and bytes are the formula's but for {', '.join(wrong)}: this torch communicates otherwise there."
    return f"Calls and bytes are the formula's in all {len(runs)} runs, to the byte."


def spread(artefact: dict) -> float:
    """The noise of its timing: a run's median step over its fastest, the largest over all runs."""
    return max(
        median(run["step_seconds"]) / min(run["step_seconds"]) for run in [artefact["single"], *artefact["runs"]]
    )


def _noise(artefacts: list[dict]) -> str:
    """What to know before comparing times: their noise, and what a rank is where devices are shared."""
    sentence = f"A run's median step took up to {max(map(spread, artefacts)):.2f} times its fastest."
    cpus = [artefact for artefact in artefacts if artefact["backend"] == "gloo"]
    if not cpus:
        return sentence
    threads = max(artefact["threads"] for artefact in cpus)
    return f"{sentence} On a CPU every process, the single one too, has {threads} thread{'s' if threads > 1 else ''}."


def _source(artefact: dict) -> str:
    """Where, when and with what an artefact was measured, and whether that still holds."""
    made, restored = artefact["provenance"], artefact.get("restored")
    how = f"torch {made['versions']['torch']}, {artefact['backend']}, memory from {artefact['memory_from']}"
    text = f"{made['device']}, {made['date'][:10]}: {how}."
    if restored is None:
        return f"{text} Measured here."
    state = f"stale: {'; '.join(restored['reasons'])}" if restored["stale"] else "its sources are unchanged"
    return f"{text} Restored from `{restored['from']}`; {state}."


def _times(run: dict, alone: dict) -> str:
    return "" if run is alone else f" ({run['tokens_per_s'] / alone['tokens_per_s']:.2f}x)"


def _collectives(run: dict) -> str:
    """The busiest rank's collectives in words: `21 all-reduces (9.4 MB)`."""
    busiest = max(run["collectives"], key=lambda counts: sum(entry["bytes"] for entry in counts.values()))
    words = []
    for kind, entry in sorted(busiest.items()):
        name = WORDS.get(kind, kind.replace("_", "-"))
        words.append(f"{entry['count']} {name}{'s' if entry['count'] > 1 else ''} ({_size(entry['bytes'])})")
    return ", ".join(words) or "none"


def _size(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"
