"""Profiles one model on one device: times every mode, breaks the compiled call down, compares attention.

Every measurement has a process of its own (`own_process`). A mode's first calls are measured in one, which leaves its
caches behind; all modes of a shape are then timed together in another, which compiles from these.
"""

import logging
import tempfile
from pathlib import Path
from typing import Any

from minicompile.profile.figures import compared
from minicompile.profile.own_process import Outcome, Processes, own_processes
from minilab import LabError
from minilab.device import short_name

CEILINGS = ("copy_gb_per_s", "l2_gb_per_s", "fp32_tflop_per_s", "tf32_tflop_per_s", "bf16_tflop_per_s")
FIRST_CALL, TIME_MODES, TAKE_APART = (
    "minicompile.profile.first_call:first_call",
    "minicompile.profile.timing:time_modes",
    "minicompile.profile.attention:taken_apart",
)
IMPORTED = (
    "minicompile.torch_private.preloaded",
    *(function.partition(":")[0] for function in (FIRST_CALL, TIME_MODES, TAKE_APART)),
)
NO_LIMIT_SECONDS = 3600.0


def measure(model: str, params: dict, checkpoint: str | Path, device: str, ceilings: dict, log: logging.Logger) -> dict:
    """Profile `model`; the result is profile_samples.json without its provenance.

    Args:
        params: `cases`, each with `shape` (None for a user's model, which has its own), `modes`, `kernels` (whether the
            call is taken apart) and `attention` (dtypes to compare fused attention in); `calls` to time, and `samples`
            of what is taken apart, fewer where a call is slow; `largest_difference` that a compiled output may have
            from eager's, or None; `entry`, of a user's model in the configuration, or None; and `compile`, fields of
            `CompileConfig`, of which each case sets the mode, and which limits each process' time.
        checkpoint: of the trained MiniGPT.
        device: a torch device.
        ceilings: the device's `ceilings.json`.

    Raises:
        LabError: a compiled output is further from eager's than `largest_difference`; or, of the lab's own models, a
            part could not be measured. Of a user's, it is left out, and `left_out` says why.
    """
    limit = params["compile"]["time_limit_seconds"] or NO_LIMIT_SECONDS
    made: dict[str, list] = {"timings": [], "shapes": [], "attention": [], "left_out": [], "busy": []}
    with own_processes(IMPORTED, limit) as processes:
        for case in params["cases"]:
            of = {"model": model, "entry": params["entry"], "shape": case["shape"], "checkpoint": str(checkpoint)}
            profiled = _Case(of, case, params, device, processes, log, made)
            profiled.time()
            if profiled.unit is not None and (case["kernels"] or case["attention"]):
                profiled.take_apart()
    return {
        "model": model,
        "trains": bool((params["entry"] or {}).get("train")),
        "users": params["entry"] is not None,
        "unit": profiled.unit or "rows",
        "largest_difference_allowed": params["largest_difference"],
        **made,
        "roofline": _roofline(ceilings),
    }


class _Case:
    """One shape of a model's profile, whose rows are added to `made`."""

    def __init__(
        self, of: dict, case: dict, params: dict, device: str, processes: Processes, log: logging.Logger, made: dict
    ) -> None:
        self.of, self.case, self.params, self.device = of, case, params, device
        self.processes, self.log, self.made = processes, log, made
        self.unit: str | None = None

    def _run(self, mode: str | None, function: str, **arguments: Any) -> Any:
        """What a function returns in a process of its own; None where it fails, and is left out."""
        outcome = self.processes.run(function, made_of=self.of, device=self.device, **arguments)
        return outcome.value if outcome.reason is None else self._leave_out(mode, outcome)

    def _leave_out(self, mode: str | None, outcome: Outcome) -> None:
        model, shape = self.of["model"], self.case["shape"]
        what = "taken apart" if mode is None else f"in mode {mode}"
        told = ", ".join(f"{key}: {value}" for key, value in (outcome.reason or {}).items())
        said = f"{model}{'' if shape is None else f' {tuple(shape)}'} could not be profiled {what} ({told})."
        if self.of["entry"] is None:
            raise LabError(f"{said} {outcome.stack}".strip())
        self.log.warning("%s", said)
        self.made["left_out"].append({"shape": shape, "mode": mode, "reason": outcome.reason or {}})

    def _config(self, mode: str) -> dict:
        """Fields of `CompileConfig`: a user's model has its own `dynamic` and `options`."""
        own = {key: self.of["entry"][key] for key in ("dynamic", "options") if key in (self.of["entry"] or {})}
        return {**self.params["compile"], "mode": mode, **own}

    def time(self) -> None:
        """Measure each mode's first calls, then time all that compile in turn."""
        with tempfile.TemporaryDirectory(prefix="modes-") as folder:
            caches = {mode: str(Path(folder, mode)) for mode in self.case["modes"]}
            firsts = {
                mode: self._run(mode, FIRST_CALL, config=self._config(mode), caches=caches[mode]) for mode in caches
            }
            configs = [self._config(mode) for mode, first in firsts.items() if first is not None]
            if not configs:
                return
            calls = self.params["calls"]
            timed = self._run(configs[0]["mode"], TIME_MODES, configs=configs, calls=calls, caches=caches)
        if timed is not None:
            self.unit = timed["unit"]
            self.made["timings"] += [self._timing(config["mode"], firsts[config["mode"]], timed) for config in configs]
            self.made["busy"].append({"shape": timed["shape"], "busy": timed["busy"]})

    def _timing(self, mode: str, first: dict, timed: dict) -> dict:
        eager: Any = {**timed["sides"]["eager"], "peak_bytes": first.pop("eager_peak_bytes")}
        compiled: Any = {**timed["sides"][mode], "peak_bytes": first.pop("peak_bytes")}
        row: Any = {
            "shape": timed["shape"],
            "mode": mode,
            "calls": timed["calls"],
            **first,
            "recompiles": timed["recompiles"][mode],
            **compared(eager, compiled),
            "eager": eager,
            "compiled": compiled,
        }
        check_match(self.of["model"], row, self.params["largest_difference"])
        self.log.info(
            "%s %s %s: compiled in %.1f s, eager %.1f us, compiled %.1f us",
            self.of["model"], row["shape"], mode, row["cold_compile_seconds"], eager["median_us"],
            compiled["median_us"],
        )  # fmt: skip
        return row

    def take_apart(self) -> None:
        """Break the call of the default mode down, and compare attention."""
        options = {key: self._config("default")[key] for key in ("dynamic", "options")}
        found = self._run(
            None, TAKE_APART, options=options, kernels=self.case["kernels"], attention=self.case["attention"],
            samples=min(self.made["timings"][-1]["calls"], self.params["samples"]),
        )  # fmt: skip
        if found is not None:
            self.made["shapes"] += found["shapes"]
            self.made["attention"] += found["attention"]


def check_match(model: str, timed: dict, allowed: float | None) -> None:
    """Refuse a compiled output that is too far from eager's.

    Raises:
        LabError: it is further from it than `allowed`, if that is not None.
    """
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
        "datasheet_gb_per_s": (ceilings.get("datasheet") or {}).get("memory_gb_per_s"),
        "stale_ceilings": ceilings.get("restored", {}).get("stale", False),
    }
