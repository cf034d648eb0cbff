"""The manifest of stage 24: the experiment in one small file, filled from the measured artefacts alone."""

from pathlib import Path

WEIGHTS = "minigpt.safetensors"  # the trained model of a swap, among what its artefact was made of
B512 = (512, 600)  # the shape at which the manifest quotes every kernel


def manifest_24(
    bench: dict, autotune: dict | None, swap: dict, equivalence: dict, port: dict, seed: int, kernels: list[str]
) -> dict:
    """Assemble the manifest. A kernel without a time to trust at 512 rows has nulls, and so has an absent GPU.

    Args:
        bench, autotune, swap: a device's artefacts; `autotune` is None on a CPU.
        equivalence, port: the port's reports.
        seed: the training's seed.
        kernels: names of the lab's kernels.
    """
    made = bench["provenance"]
    gpu = made["hardware"]["gpu"] or {}
    rows = {row["kernel"]: row for row in bench["rows"] if (row["rows"], row["cols"]) == B512}
    softmax_kernels = {name: _kernel(rows.get(name)) for name in kernels}
    if "triton" in softmax_kernels:
        softmax_kernels["triton"]["autotune_picked"] = _picked(autotune)
    proven = port["byte_equal"] and equivalence["contract"]["held"]
    return {
        "experiment": "24-triton-and-pytorch",
        "date": made["date"][:10],
        "seed": seed,
        "device": made["device"],
        "gpu": {"model": gpu.get("name"), "compute_capability": gpu.get("compute_cap")},
        "versions": {name: made["versions"].get(name) for name in ("python", "torch", "triton", "cupy")},
        "softmax_kernels": softmax_kernels,
        "torch_port": {
            # every array byte-equal after loading, and the logits within the contract
            "byte_equivalence_at_fp32_cpu": "passed" if proven else "failed",
            "max_abs_diff_to_numpy_reference": equivalence["outputs"]["logits"]["max_abs_difference"],
            "checkpoint_sha256": equivalence["weights"]["sha256"],
            # a record's swap may be of another trained model than the one that is proven here
            "kernel_swap_changes_top1_token": swap["top1_changed"],
            "kernel_swap_checkpoint_sha256": weights_of(swap),
        },
        "restored": bench.get("restored"),
    }


def weights_of(swap: dict) -> str:
    """The digest of the trained weights that a `kernel_swap.json` was made with."""
    return next(digest for path, digest in swap["provenance"]["inputs"].items() if Path(path).name == WEIGHTS)


def _kernel(row: dict | None) -> dict:
    if row is None or row["above_roof"]:
        return {"us_at_B512": None, "frac_of_F_softmax": None, "noise_floor": None}
    # the share of F.softmax's speed: 1.1 is ten percent faster than it, if its noise is less than that
    share = row["reference_us"] / row["median_us"]
    return {"us_at_B512": row["median_us"], "frac_of_F_softmax": share, "noise_floor": row["noise_floor"]}


def _picked(autotune: dict | None) -> dict:
    choices = autotune["choices"] if autotune else []
    configs = [choice["config"] for choice in choices if (choice["rows"], choice["cols"]) == B512]
    return configs[0] if configs else {"BLOCK": None, "num_warps": None}
