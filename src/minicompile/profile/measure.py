"""Profiles one model on one device: times every mode, breaks the compiled call down, compares attention."""

import logging
from pathlib import Path

from minicompile.profile.attention import compare_attention
from minicompile.profile.breakdown import break_down
from minicompile.profile.timing import affordable_calls, model_at, time_mode
from minicompile.safe.compile_config import CompileConfig
from minilab import LabError
from minilab.device import short_name

CEILINGS = ("copy_gb_per_s", "l2_gb_per_s", "fp32_tflop_per_s", "tf32_tflop_per_s", "bf16_tflop_per_s")


def measure(model: str, params: dict, checkpoint: str | Path, device: str, ceilings: dict, log: logging.Logger) -> dict:
    """Profile `model`; the result is profile.json without its provenance.

    Args:
        params: `cases`, each with `shape`, `modes`, `kernels` (whether the call is taken apart) and `attention`
            (dtypes to compare fused attention in); `calls` to time, and `samples` of what is taken apart, fewer where
            a call is slow; `largest_difference` that a compiled output may have from eager's, or None; and `compile`,
            fields of `CompileConfig`, of which each case sets the mode.
        checkpoint: of the trained MiniGPT.
        device: a torch device.
        ceilings: the device's `ceilings.json`.

    Raises:
        LabError: a compiled output is further from eager's than `largest_difference`; a model, mode or shape that
            cannot be profiled.
    """
    timings, shapes, attention = [], [], []
    for case in params["cases"]:
        shape = case["shape"]
        module, inputs = model_at(model, shape, checkpoint, device)
        calls = affordable_calls(module, inputs, params["calls"])
        samples = min(calls, params["samples"])
        for mode in case["modes"]:
            cfg = CompileConfig.from_dict({**params["compile"], "mode": mode}, "config.yaml: compile")
            timed = {"shape": shape, **time_mode(module, inputs, cfg, calls, log)}
            _check_match(model, timed, params["largest_difference"])
            log.info(
                "%s %s %s: compiled in %.1f s, eager %.1f us, compiled %.1f us",
                model, shape, mode, timed["cold_compile_seconds"], timed["eager"]["median_us"],
                timed["compiled"]["median_us"],
            )  # fmt: skip
            timings.append(timed)
        broken = None
        if case["kernels"]:
            broken = break_down(module, inputs, samples, model)
            rows = broken.kernels(ceilings["copy_gb_per_s"])
            shapes.append({"shape": shape, "split": broken.split(), "kernels": rows, "rounds": broken.rounds})
        for dtype in case["attention"]:
            attention.append(compare_attention(module, inputs[0], dtype, samples, broken))
    return {
        "model": model,
        "unit": "tokens" if model == "minigpt" else "rows",
        "largest_difference_allowed": params["largest_difference"],
        "timings": timings,
        "shapes": shapes,
        "kernels": shapes[0]["kernels"] if shapes else [],
        "roofline": _roofline(ceilings),
        "attention": attention,
    }


def _check_match(model: str, timed: dict, allowed: float | None) -> None:
    # Written as "not within", so that NaN, which compares false with everything, is refused.
    if allowed is not None and not timed["max_difference"] <= allowed:
        raise LabError(
            f"{model} {tuple(timed['shape'])} compiled in mode {timed['mode']} differs from eager by up to "
            f"{timed['max_difference']:.3g}, and profile.largest_difference allows {allowed:g}; the compiled code is "
            f"wrong, or the bound too narrow for this model."
        )


def _roofline(ceilings: dict) -> dict:
    made = ceilings["provenance"]
    gpu = made["hardware"]["gpu"]
    return {
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "ceilings": {key: ceilings[key] for key in CEILINGS},
        "stale_ceilings": ceilings.get("restored", {}).get("stale", False),
    }
