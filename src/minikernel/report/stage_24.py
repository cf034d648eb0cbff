"""Write the report of stage 24: every figure from an artefact, every sentence decided by the figures.

This module works out what there is to say; `templates/report_24.md` and its twins say it.
"""

import re
from collections.abc import Sequence

from minikernel.report.contest_report import contest_view
from minikernel.report.filters import filters
from minikernel.report.roofline import head, head_caption
from minilab import templates
from minilab.device import is_cpu, short_name
from minilab.translations import Translations

LADDER = ("naive", "smem", "fused", "triton")  # each does something that the one before did not
TARGETS = ("fused", "triton")  # to be at least as fast as F.softmax on a GPU, at every shape


def report_24(
    training: dict,
    port: dict,
    equivalence: dict,
    benches: list[dict],
    autotune: dict | None,
    swaps: list[dict],
    proofs: list[dict],
    contest: dict | None = None,
    heads: dict | None = None,
    explained: Sequence[dict] = (),
    language: str = "en",
) -> str:
    """Write `results/24/README.md`, in Markdown.

    Args:
        training, port, equivalence: the artefacts of the model and its port.
        benches, swaps: one for each device shown.
        autotune: the GPU's tuned choices, or None where there is no GPU.
        proofs: the proofs made in this run.
        contest, heads: the GPU's contest, and its LM heads, or None where there is none.
        explained: why standards are missed, as `contest_report.explanations` gives it.
        language: of the report's words.
    """
    text = Translations("minikernel.report", "report_24", language)
    fused = head(heads) if heads else None
    views = sorted(map(device_view, benches), key=lambda view: is_cpu(view["device"]))
    values = {
        "text": text,
        "training": training,
        "port": port,
        "equivalence": equivalence,
        "layers": [layer for layer in equivalence["layers"] if _is_coarse(layer["layer"])],
        "worst_layer": max(equivalence["layers"], key=lambda layer: layer["torch_numpy"]["max_ulps"]),
        "largest_further_difference": max(
            shape["logits"]["max_abs_difference"] for shape in equivalence["further_shapes"]
        ),
        "devices": views,
        "gpu": next((view["device"] for view in views if not is_cpu(view["device"])), None),
        "contest": contest_view(contest, heads, list(explained)) if contest else None,
        "head_caption": head_caption(fused, language) if fused else None,
        "choices": autotune["choices"] if autotune else [],
        "autotune_stale": autotune is not None and autotune.get("restored", {}).get("stale", False),
        "swaps": swaps,
        "proofs": proofs,
    }
    report = templates.render("minikernel.report", "report_24", language, values, filters=filters(text))
    return re.sub(r"\n{3,}", "\n\n", report)  # parts that are absent leave their blank lines behind


def device_view(bench: dict) -> dict:
    """What there is to say about one device's bench."""
    made = bench["provenance"]
    rows = [row for row in bench["rows"] if row["direction"] == "forward"]
    shapes = list(dict.fromkeys((row["rows"], row["cols"]) for row in rows))
    at = {(row["kernel"], row["rows"], row["cols"]): row for row in rows}
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    shares = triton_shares(at, shapes)
    return {
        "device": made["device"],
        "name": short_name((made["hardware"]["gpu"] or {}).get("name") or made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "made": made,
        "restored": bench.get("restored"),
        "shapes": shapes,
        "kernels": [{"name": name, "rows": [at.get((name, *shape)) for shape in shapes]} for name in names],
        "noise_floor": max(row["noise_floor"] for row in rows),
        "distrusted": [row for row in rows if row["above_roof"]],
        "steps": steps(at, shapes[-1]),
        "left_out": bench.get("left_out", []),
        "triton_shares": shares,
        "triton_ahead": sum(share["share"] > 1 for share in shares),
        "targets": [] if is_cpu(made["device"]) else [target(at, shapes, kernel) for kernel in TARGETS],
    }


def steps(at: dict, shape: tuple[int, int]) -> list[dict]:
    """The lab's kernels from the plainest on, at one shape: each row, and how many times as fast as the one before."""
    rows = [at[name, *shape] for name in LADDER if (name, *shape) in at]
    return [
        {"row": row, "factor": before and before["median_us"] / row["median_us"]}
        for before, row in zip([None, *rows], rows, strict=False)
    ]


def triton_shares(at: dict, shapes: list[tuple[int, int]]) -> list[dict]:
    """Triton's speed as a share of the fused CUDA C kernel's, at each shape where both were timed."""
    both = [shape for shape in shapes if ("fused", *shape) in at and ("triton", *shape) in at]
    return [
        {"rows": shape[0], "share": at["fused", *shape]["median_us"] / at["triton", *shape]["median_us"]}
        for shape in both
    ]


def target(at: dict, shapes: list[tuple[int, int]], kernel: str) -> dict:
    """Whether a kernel is at least as fast as F.softmax at every shape, and by how much not."""
    rows = [at[kernel, *shape] for shape in shapes if (kernel, *shape) in at]
    return {
        "kernel": kernel,
        "measured": len(rows),
        "missed": [
            {"rows": row["rows"], "by": row["ratio_to_reference"] - 1} for row in rows if row["ratio_to_reference"] > 1
        ],
    }


def _is_coarse(layer: str) -> bool:
    return layer.count(".") <= 1  # whole blocks, not their parts
