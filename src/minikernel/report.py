"""The report of stage 24, in Markdown: every figure from an artefact, every sentence decided by the figures."""

from minilab.device import is_cpu

OURS = ("naive", "smem", "fused", "triton")


def report_24(
    training: dict,
    port: dict,
    equivalence: dict,
    benches: list[dict],
    autotune: dict | None,
    swaps: list[dict],
    proofs: list[dict],
    targets: list[str],
) -> str:
    """Write `results/24/README.md`.

    Args:
        training, port, equivalence: the stage's model artefacts.
        benches, swaps: one for each device shown, in the same order.
        autotune: the GPU's tuned choices, or None.
        proofs: the proofs made here.
        targets: names of the kernels that must be at least as fast as F.softmax on a GPU.
    """
    sections = [
        "# Triton and PyTorch: the softmax kernels and the port\n\n![Roofline](roofline.png)\n\n" + HOW_TO_READ,
        _model(training),
        _port(port, equivalence),
        *[_bench(bench, targets) for bench in sorted(benches, key=lambda bench: is_cpu(bench["provenance"]["device"]))],
    ]
    if autotune:
        sections.append(_autotune(autotune))
    sections += [_swaps(swaps), _proofs(proofs), _sources(benches)]
    return "\n\n".join(sections) + "\n"


HOW_TO_READ = (
    "How to read it: a dot's height is the rate that a kernel reached, its place from left to right the operations "
    "it does for each byte that it must move. No dot can lie above the line over it. Softmax does so little for each "
    "byte that the slope, memory, is its limit, so the bars on the right say how near each kernel comes to a plain copy "
    "of the same bytes. Hollow dots and bars are records whose kernel has changed since."
)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines)


def _microseconds(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _model(training: dict) -> str:
    excess = training["excess_percent"]
    return (
        "## The model\n\n"
        f"The NumPy MiniGPT reached a held-out cross-entropy of {training['held_out_loss']:.4f} nats a token; the grammar's own "
        f"conditional entropy on the same tokens is {training['entropy']:.4f}, which no model can beat in expectation. "
        f"That is {abs(excess):.2f} % {'above' if excess >= 0 else 'below'} it."
    )


def _port(port: dict, equivalence: dict) -> str:
    outputs, contract = equivalence["outputs"], equivalence["contract"]
    worst = max(equivalence["layers"], key=lambda layer: layer["torch_numpy"]["max_ulps"])
    rows = [
        [layer["layer"], f"{layer['torch_numpy']['max_abs_difference']:.2e}"]
        + [f"{layer[pair]['max_ulps']:.1f}" for pair in ("torch_numpy", "torch_float64", "numpy_float64")]
        for layer in equivalence["layers"]
        if layer["layer"].count(".") <= 1 and not layer["layer"].endswith(("ln_1", "ln_2"))
    ]
    largest = max(shape["logits"]["max_abs_difference"] for shape in equivalence["further_shapes"])
    return (
        f"## The port\n\nAll {len(port['arrays'])} arrays ({port['parameters']:,} numbers) are byte-equal after loading. On random ids of shape "
        f"{tuple(contract['shape'])} the logits differ by at most {outputs['logits']['max_abs_difference']:.2e} and the probabilities by "
        f"{outputs['probabilities']['max_abs_difference']:.2e} (the contract allows {contract['atol']:g} + {contract['rtol']:g} x value); "
        f"over the further shapes, up to {tuple(equivalence['further_shapes'][-1]['shape'])}, the logits by at most {largest:.2e}. "
        f"The layer that differs most, in ulps, is `{worst['layer']}` with {worst['torch_numpy']['max_ulps']:.1f}.\n\n"
        + _table(["layer", "largest difference", "ulps, PyTorch to NumPy", "PyTorch to float64", "NumPy to float64"], rows)
    )


def _bench(bench: dict, targets: list[str]) -> str:
    made = bench["provenance"]
    gpu = made["hardware"].get("gpu")
    name = gpu["name"] if gpu else made["hardware"]["cpu"]
    rows = [row for row in bench["rows"] if row["direction"] == "forward"]
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    shapes = list(dict.fromkeys((row["rows"], row["cols"]) for row in rows))
    at = {(row["kernel"], row["rows"], row["cols"]): row for row in rows}
    where = f"from the record of {made['date'][:10]}" if "restored" in bench else f"measured here on {made['date'][:10]}"

    def cell(kernel: str, shape: tuple[int, int]) -> str:
        row = at.get((kernel, *shape))
        if row is None:
            return "not measured"
        return f"{_microseconds(row['median_us'])} ({row['ratio_to_reference']:.2f}x, {row['fraction_of_copy']:.0%})" + (" *stale*" if row["stale"] else "")

    table = _table(["kernel", *[f"{r:,} x {c:,}" for r, c in shapes]], [[kernel, *[cell(kernel, shape) for shape in shapes]] for kernel in kernels])
    text = (
        f"## {name}, {where}\n\n"
        "Microseconds a call, cold inputs (its time as a multiple of F.softmax's in the same process; its bandwidth as a share of a large copy's).\n\n"
        + table
    )
    noise = max(row["noise_floor"] for row in rows)
    text += f"\n\nA duplicate of each kernel, timed beside it, differed from it by at most {noise:.1%}: smaller differences than that mean nothing."
    distrusted = [f"{row['kernel']} at {row['rows']:,} x {row['cols']:,}" for row in rows if row.get("above_roof")]
    if distrusted:
        text += f" Faster than a copy could be, so not to be trusted: {', '.join(distrusted)}."
    if not is_cpu(made["device"]):
        text += "\n\n" + "\n\n".join(filter(None, [_steps(at, shapes[-1]), _triton(at, shapes), _targets(at, shapes, targets)]))
    return text


def _steps(at: dict, shape: tuple[int, int]) -> str:
    """What each kernel gained over the one before, at the largest shape."""
    steps = [(name, at[name, *shape]["median_us"]) for name in OURS[:3] if (name, *shape) in at]
    sentences = []
    for (before, slow), (after, fast) in zip(steps, steps[1:], strict=False):
        word = f"{slow / fast:.2f} times as fast as" if fast <= slow else f"{fast / slow:.2f} times slower than"
        sentences.append(f"`{after}` is {word} `{before}`")
    return f"At {shape[0]:,} rows " + ", and ".join(sentences) + "." if sentences else ""


def _triton(at: dict, shapes: list[tuple[int, int]]) -> str:
    """Where Triton lands relative to the best CUDA C kernel."""
    ratios = [
        (at["fused", *shape]["median_us"] / at["triton", *shape]["median_us"], shape[0])
        for shape in shapes
        if ("fused", *shape) in at and ("triton", *shape) in at
    ]
    if not ratios:
        return ""
    parts = ", ".join(f"{ratio:.0%} at {rows:,} rows" for ratio, rows in ratios)
    ahead = sum(ratio > 1 for ratio, _ in ratios)
    verdict = {0: "CUDA C is ahead at every shape", len(ratios): "Triton is ahead at every shape"}.get(
        ahead, f"Triton is ahead at {ahead} of {len(ratios)} shapes"
    )
    return f"Triton's speed as a share of the fused CUDA C kernel's: {parts}; {verdict}."


def _targets(at: dict, shapes: list[tuple[int, int]], targets: list[str]) -> str:
    lines = []
    for kernel in targets:
        missed = [
            f"{shape[0]:,} rows by {at[kernel, *shape]['ratio_to_reference'] - 1:.1%}"
            for shape in shapes
            if (kernel, *shape) in at and at[kernel, *shape]["ratio_to_reference"] > 1
        ]
        measured = sum((kernel, *shape) in at for shape in shapes)
        if not measured:
            lines.append(f"- `{kernel}` at least as fast as F.softmax: not measured.")
        elif missed:
            lines.append(f"- `{kernel}` at least as fast as F.softmax: **missed** at {', '.join(missed)}.")
        else:
            lines.append(f"- `{kernel}` at least as fast as F.softmax: met at all {measured} shapes.")
    return "Targets:\n\n" + "\n".join(lines) if lines else ""


def _autotune(autotune: dict) -> str:
    rows = [
        [f"{choice['rows']:,} x {choice['cols']:,}", ", ".join(f"{k} = {v}" for k, v in choice["config"].items()), _microseconds(choice["median_us"])]
        for choice in autotune["choices"]
    ]
    return "## What autotune picked\n\n" + _table(["shape", "configuration", "µs while tuning"], rows)


def _swaps(swaps: list[dict]) -> str:
    lines = []
    for swap in swaps:
        words = ", ".join(f"{row['word']} ({row['probability']:.3f})" for row in swap["after"]["top"])
        tense = "all past simple" if swap["after"]["all_past_simple"] else "not all past simple"
        lines.append(
            f"- {swap['device']} (computed by {swap['executed_by']}): after “{swap['prompt']}” come {words}: {tense}; the first word "
            f"{'changed' if swap['top1_changed'] else 'did not change'}, no probability moved by more than {swap['after_to_before']['max_abs_difference']:.1e}."
        )
    return "## The kernel swap\n\nThe model's last softmax, first F.softmax, then the lab's kernel:\n\n" + "\n".join(lines)


def _proofs(proofs: list[dict]) -> str:
    lines = []
    for proof in proofs:
        if proof["cases"]:
            worst = max(case["max_rel_err"] for case in proof["cases"])
            lines.append(
                f"- `{proof['kernel']}` ({proof['executed_by']}): {len(proof['cases'])} cases, largest relative error {worst:.1e} against float64."
            )
        else:
            compiled = "compiled for sm_90, not run" if proof["compiled"] else "neither run nor compiled: no GPU and no CUDA compiler"
            lines.append(f"- `{proof['kernel']}`: {compiled} here.")
    return "## Proven here\n\n" + "\n".join(lines)


def _sources(benches: list[dict]) -> str:
    lines = []
    for bench in benches:
        made = bench["provenance"]
        versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
        gpu = made["hardware"].get("gpu")
        driver = f", driver {gpu['driver_version']}" if gpu else ""
        restored = bench.get("restored")
        state = ""
        if restored:
            state = f" Restored from `{restored['from']}`; " + ("stale: " + "; ".join(restored["reasons"]) + "." if restored["stale"] else "its sources are unchanged.")
        lines.append(f"- {made['device']}, {made['date']}{driver}: {versions}.{state}")
    return "## Where the figures come from\n\n" + "\n".join(lines)
