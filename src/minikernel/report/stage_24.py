"""Write the pages of stage 24: every figure from an artefact, every sentence decided by the figures.

There are two: the report, for whoever learns, and the contest, which has every time, standard and miss. This module
works out what there is to say; the templates `report_24` and `contest_24` and their twins say it, each figure on one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from minikernel.measure.choice import HOST_US, WORTH
from minikernel.ops.ladder.table import LADDERS
from minikernel.report.contest_report import contest_view
from minikernel.report.filters import filters
from minikernel.report.findings import findings, is_within_noise, times_as_long
from minikernel.report.ladder import sentences, share_alike
from minikernel.report.manifest import weights_of
from minikernel.report.roofline import head, head_caption, of_one_copy
from minilab.device import is_cpu, short_name
from minilab.pages import templates
from minilab.pages.translations import Translations

TARGETS = ("fused", "triton")  # to be at least as fast as F.softmax on a GPU, at every shape
TRITON_EXPECTED = (0.80, 0.95)  # of F.softmax's speed: what the lab expected of a softmax in Triton
SHOWN_DIGITS = 12  # of a checkpoint's digest


@dataclass(frozen=True)
class Artefacts:
    """What the pages are written from.

    Attributes:
        training, port, equivalence: of the model and its port.
        benches, swaps: one for each device shown.
        proofs: the proofs made in this run.
        ceilings: of the devices shown, those that have some.
        allocations: what calls run into, of the CPUs that are here.
        autotune: the GPU's tuned choices, or None where there is no GPU.
        contest, heads: the GPU's contest, and its LM heads, or None where there is none.
        explained: why standards are missed, as `contest_report.explanations` gives it.
    """

    training: dict
    port: dict
    equivalence: dict
    benches: list[dict]
    swaps: list[dict]
    proofs: list[dict] = field(default_factory=list)
    ceilings: list[dict] = field(default_factory=list)
    allocations: list[dict] = field(default_factory=list)
    autotune: dict | None = None
    contest: dict | None = None
    heads: dict | None = None
    explained: Sequence[dict] = ()


def report_24(made: Artefacts, language: str = "en") -> str:
    """Write `results/24/README.md`, in Markdown."""
    return _page("report_24", made, language)


def contest_24(made: Artefacts, language: str = "en") -> str:
    """Write `results/24/CONTEST.md`, in Markdown."""
    return _page("contest_24", made, language)


def _page(page: str, made: Artefacts, language: str) -> str:
    text = Translations("minikernel.report", "report_24", language)
    words = filters(text)
    values = views(made, language)
    found = findings(values["devices"], values["allocations"], values["contest"])
    values["findings"] = templates.sentences("minikernel.report", "findings_24", language, found, filters=words)
    for device in values["devices"]:
        told = templates.sentences("minikernel.report", "ladder_24", language, device["ran_into"], filters=words)
        device["ran_into"] = told
    written = templates.render("minikernel.report", page, language, {"text": text, **values}, filters=words)
    return re.sub(r"\n{3,}", "\n\n", written).rstrip() + "\n"  # parts that are absent leave their blank lines behind


def views(made: Artefacts, language: str = "en") -> dict:
    """What the pages ask for, by name."""
    training, equivalence, contest, autotune = made.training, made.equivalence, made.contest, made.autotune
    sheets = {ceiling["provenance"].get("device"): ceiling["datasheet"] for ceiling in made.ceilings}
    costs = {cost["provenance"]["device"]: cost for cost in made.allocations}
    devices = sorted(
        (
            device_view(bench, sheets.get(bench["provenance"]["device"]), costs.get(bench["provenance"]["device"]))
            for bench in made.benches
        ),
        key=lambda view: is_cpu(view["device"]),
    )
    fused = head(made.heads) if made.heads else None
    worst = max(equivalence["layers"], key=lambda layer: layer["torch_numpy"]["max_ulps"])
    return {
        "training": training,
        "limit": min(training["conditional_entropy"], training["grammar_surprisal"]),
        "port": made.port,
        "equivalence": equivalence,
        "layers": [layer for layer in equivalence["layers"] if _is_coarse(layer["layer"]) or layer is worst],
        "worst_layer": worst,
        "largest_further_difference": max(
            shape["logits"]["max_abs_difference"] for shape in equivalence["further_shapes"]
        ),
        "devices": devices,
        "gpu": next((view["device"] for view in devices if not is_cpu(view["device"])), None),
        "allocations": [allocation_view(cost) for cost in made.allocations],
        "contest": contest_view(contest, made.heads, list(made.explained)) if contest else None,
        "head_caption": head_caption(fused, language) if fused else None,
        "choices": autotune["choices"] if autotune else [],
        "autotune_stale": autotune is not None and autotune.get("restored", {}).get("stale", False),
        "host_us": HOST_US,
        "worth": WORTH,
        "swaps": by_checkpoint(made.swaps, equivalence["weights"]["sha256"]),
        "proofs": made.proofs,
        "beside": [view for ceiling in made.ceilings for view in beside_views(ceiling)],
    }


def beside_views(ceilings: dict) -> list[dict]:
    """What jobs beside did to a device's times, shape by shape; nothing where it was not measured."""
    noise = ceilings.get("noise")
    if not noise:
        return []
    return [
        {
            "name": _name(ceilings["provenance"]),
            "cores": {way: row[way]["busy"] for way in ("alone", "beside")},
            "shape": (row["rows"], row["cols"]),
            "alone": row["alone"]["noise_floor"],
            "beside": row["beside"]["noise_floor"],
            "moved": (moved := row["beside"]["median_us"] / row["alone"]["median_us"] - 1),
            "within": abs(moved) <= max(row["alone"]["noise_floor"], row["beside"]["noise_floor"]),
        }
        for row in noise["rows"]
    ]


def _last_rung(at: dict[tuple, dict], shape: tuple[int, int]) -> dict:
    """The row of the last of a CPU's rungs that was timed at a shape; empty where none was."""
    return next((at[rung, *shape] for rung in reversed(LADDERS["C++"]) if (rung, *shape) in at), {})


def device_view(bench: dict, datasheet: dict | None = None, allocation: dict | None = None) -> dict:
    """What there is to say about one device's bench, a CPU's beside what its calls run into."""
    made = bench["provenance"]
    rows = of_one_copy([row for row in bench["rows"] if row["direction"] == "forward"])
    shapes = list(dict.fromkeys((row["rows"], row["cols"]) for row in rows))
    at = {(row["kernel"], row["rows"], row["cols"]): row for row in rows}
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    return {
        "device": made["device"],
        "name": _name(made),
        "date": made["date"][:10],
        "made": made,
        "restored": bench.get("restored"),
        "shapes": shapes,
        "kernels": [{"name": name, "rows": [at.get((name, *shape)) for shape in shapes]} for name in names],
        "noise": [max(row["noise_floor"] for row in rows if (row["rows"], row["cols"]) == shape) for shape in shapes],
        "distrusted": [row for row in rows if row["above_roof"]],
        "steps": [step for ladder in LADDERS.values() for step in steps(ladder, at, shapes[-1], datasheet, allocation)],
        "triton": expectation(at, shapes[-1]),
        "ran_into": sentences(allocation, _last_rung(at, shapes[-1])) if allocation else [],
        "has_ladder_picture": bool(allocation and any((rung, *shapes[-1]) in at for rung in LADDERS["C++"])),
        "left_out": bench["left_out"],
        "targets": [] if is_cpu(made["device"]) else [target(at, shapes, kernel) for kernel in TARGETS],
    }


def steps(
    ladder: Sequence[str],
    at: dict,
    shape: tuple[int, int],
    datasheet: dict | None = None,
    allocation: dict | None = None,
) -> list[dict]:
    """The rungs of a ladder that were timed, from the plainest on, at one shape.

    Each has its row, how many times as fast as the one before it is, whether the noise hides that, its share of the
    bandwidth that the datasheet gives, and on a CPU of a copy's that gets its memory alike; None for what is not known.
    What follows from a time that is shorter than a copy's could be is not known.
    """
    rows = [at[name, *shape] for name in ladder if (name, *shape) in at]
    return [
        {
            "row": row,
            "factor": times_as_long(before, row) if trusted(before, row) else None,
            "within_noise": trusted(before, row) and is_within_noise(before, row),
            "of_datasheet": row["gb_per_s"] / datasheet["memory_gb_per_s"] if datasheet and trusted(row) else None,
            "alike": share_alike(row, allocation) if allocation and trusted(row) else None,
        }
        for before, row in zip([None, *rows], rows, strict=False)
    ]


def trusted(*rows: dict | None) -> bool:
    """Whether all of the rows are there and none is faster than a copy could be."""
    return all(row is not None and not row["above_roof"] for row in rows)


def expectation(at: dict, shape: tuple[int, int]) -> dict | None:
    """F.softmax's speed as shares, what the lab expects of a Triton kernel and what was measured; None without both."""
    textbook, tuned = (at.get((name, *shape)) for name in LADDERS["Triton"])
    if textbook is None or tuned is None or not trusted(textbook, tuned):
        return None
    share, noise = 1 / tuned["ratio_to_reference"], tuned["noise_floor"]
    return {
        "expected": TRITON_EXPECTED,
        "textbook": 1 / textbook["ratio_to_reference"],
        "tuned": share,
        "ahead": share - 1 > noise,
        "level": abs(share - 1) <= noise,
    }


def target(at: dict, shapes: list[tuple[int, int]], kernel: str) -> dict:
    """Whether a kernel is at least as fast as F.softmax at every shape with a time to trust, and by how much not.

    The bar is exact. Each miss tells whether the noise could explain it; `barely` counts the shapes that meet it by no
    more than the noise.
    """
    rows = [at[kernel, *shape] for shape in shapes if trusted(at.get((kernel, *shape)))]
    return {
        "kernel": kernel,
        "measured": len(rows),
        "missed": [
            {"rows": row["rows"], "by": by, "within_noise": by <= row["noise_floor"]}
            for row in rows
            if (by := row["ratio_to_reference"] - 1) > 0
        ],
        "barely": sum(0 <= 1 - row["ratio_to_reference"] <= row["noise_floor"] for row in rows),
    }


def allocation_view(cost: dict) -> dict:
    """What there is to say about what a fresh result costs on one CPU: milliseconds, megabytes, page faults.

    `slower` tells whether each fresh copy took longer than every other copy; else the noise hides a difference.
    """
    there, fresh = (cost["ways"][name]["samples_us"] for name in ("copy", "fresh_copy"))
    slower = min(fresh) > max(there)
    return {
        "name": _name(cost["provenance"]),
        "megabytes": cost["bytes"] / 1e6,
        "ms": {name: way["median_us"] / 1e3 for name, way in cost["ways"].items()},
        "faults": cost["ways"]["fresh_copy"]["page_faults"],
        "page_kb": cost["page_bytes"] / 1024,
        "slower": slower,
        "page_fault_us": cost["page_fault_us"] if slower else None,
    }


def by_checkpoint(swaps: list[dict], here: str) -> list[dict]:
    """The swaps of one trained model together; of two models no probability can be compared.

    Args:
        swaps: `kernel_swap.json` of each device.
        here: the digest of the weights that this run has proven.

    Returns:
        For each model: the beginning of its weights' digest, whether it is this run's, the processor that the artefact
        was made on, and its swaps.
    """
    models: dict[str, list[dict]] = {}
    for swap in swaps:
        models.setdefault(weights_of(swap), []).append(swap)
    return [
        {
            "checkpoint": digest[:SHOWN_DIGITS],
            "here": digest == here,
            "host": same[0]["provenance"]["hardware"]["cpu"],
            "swaps": same,
        }
        for digest, same in models.items()
    ]


def _name(made: dict) -> str:
    return short_name((made["hardware"]["gpu"] or {}).get("name") or made["hardware"]["cpu"])


def _is_coarse(layer: str) -> bool:
    return layer.count(".") <= 1  # whole blocks, not their parts
