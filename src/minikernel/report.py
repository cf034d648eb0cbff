"""The report of stage 24: every figure from an artefact, every sentence decided by the figures.

This module works out what there is to say; `templates/report_24.md` says it.
"""

from itertools import pairwise

import jinja2

from minilab.device import is_cpu, short_name

CUDA_C = ("naive", "smem", "fused")
TARGETS = ("fused", "triton")  # to be at least as fast as F.softmax on a GPU, at every shape


def report_24(
    training: dict,
    port: dict,
    equivalence: dict,
    benches: list[dict],
    autotune: dict | None,
    swaps: list[dict],
    proofs: list[dict],
) -> str:
    """Write `results/24/README.md`, in Markdown.

    Args:
        training, port, equivalence: the artefacts of the model and its port.
        benches, swaps: one for each device shown.
        autotune: the GPU's tuned choices, or None where there is no GPU.
        proofs: the proofs made in this run.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("minikernel"), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"microseconds": _microseconds, "configuration": _configuration}
    return environment.get_template("report_24.md").render(
        training=training,
        port=port,
        equivalence=equivalence,
        layers=[layer for layer in equivalence["layers"] if _is_coarse(layer["layer"])],
        worst_layer=max(equivalence["layers"], key=lambda layer: layer["torch_numpy"]["max_ulps"]),
        largest_further_difference=max(
            shape["logits"]["max_abs_difference"] for shape in equivalence["further_shapes"]
        ),
        devices=sorted(map(device_view, benches), key=lambda view: is_cpu(view["device"])),
        choices=autotune["choices"] if autotune else [],
        autotune_stale=bool(autotune) and autotune.get("restored", {}).get("stale", False),
        swaps=swaps,
        proofs=proofs,
    )


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
        "distrusted": [f"{row['kernel']} at {row['rows']:,} x {row['cols']:,}" for row in rows if row["above_roof"]],
        "steps": steps(at, shapes[-1]),
        "triton_shares": shares,
        "triton_ahead": sum(share["share"] > 1 for share in shares),
        "targets": [] if is_cpu(made["device"]) else [target(at, shapes, kernel) for kernel in TARGETS],
    }


def steps(at: dict, shape: tuple[int, int]) -> list[dict]:
    """How many times as fast as the one before each CUDA C kernel is, at one shape."""
    times = [(name, at[name, *shape]["median_us"]) for name in CUDA_C if (name, *shape) in at]
    return [
        {"before": before, "after": after, "factor": slow / fast} for (before, slow), (after, fast) in pairwise(times)
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


def _microseconds(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _configuration(config: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in config.items())
