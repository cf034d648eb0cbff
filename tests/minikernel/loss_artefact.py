"""Artefacts of stage 27 that are made up: of a GPU with peers, and of a CPU without."""

from minikernel.measure.loss.contest import figures, refused

GPU = {"gpu": {"name": "NVIDIA H100 80GB HBM3"}, "cpu": "AMD EPYC"}
CPU = {"gpu": None, "cpu": "AMD EPYC"}
# who: microseconds, MiB, error over what is allowed
TIMED = {
    "eager": (800.0, 450.0, 2.5),
    "compile": (556.0, 83.0, 0.8),
    "liger": (2574.0, 18.0, 0.7),
    "cce": (2423.0, 9.0, 31.0),
    "lab": (139.0, 12.0, 0.4),
}
PLACES = ((65536, 64, 600, "bfloat16"), (8192, 768, 50257, "bfloat16"))


def samples(us: float, count: int = 5) -> list[float]:
    return [round(us * (1 + 0.01 * (turn - count // 2)), 3) for turn in range(count)]


def row(who: str, place: tuple, direction: str, us: float, mib: float, over: float) -> dict:
    kept = {who: samples(us)}
    if who == "lab":
        kept["again"] = samples(us * 1.02)
    lab = samples(TIMED["lab"][0] if us < 1e4 else us)
    made = figures(kept[who], lab, samples(lab[2] * 1.02))
    error = 8e-3 * over
    judged = {"loss_rel_err": error / 9, "dh_rel_err": error / 3, "dw_rel_err": error / 2}
    judged |= {"verdict": "right" if over <= 1 else "wrong", "of": "dw", "error": error, "allowed": 8e-3}
    at = dict(zip(("m", "d", "v", "dtype"), place, strict=True))
    return {
        "who": who, **at, "direction": direction, **made, "peak_mib": mib, **judged, "refused": None,
        "duplicated": "lab", "samples_us": kept,
    }  # fmt: skip


def loss_artefact(timed: dict | None = None, hardware: dict = GPU, places: tuple = PLACES) -> dict:
    rows = []
    for place in places:
        at = dict(zip(("m", "d", "v", "dtype"), place, strict=True))
        for direction, part in (("both", 1.0), ("forward", 0.4)):
            for who, (us, mib, over) in (timed or TIMED).items():
                rows.append(row(who, place, direction, us * part, mib, over))
            rows.append(refused("quack", at, direction, {"code": "not_installed", "package": "quack-kernels"}))
    versions = dict.fromkeys(timed or TIMED, "1.2.3") | {"quack": None}
    provenance = {"hardware": hardware, "date": "2026-11-28T10:00:00+00:00"}
    return {"provenance": provenance, "rows": rows, "versions": versions, "complete": True}


def verdicts_artefact(hardware: dict = GPU) -> dict:
    def case(
        who: str, code: str, dtype: str, verdict: str, over: float | None = None, reason: dict | None = None
    ) -> dict:
        found = {"who": who, "case": code, "dtype": dtype, "m": 96, "d": 64, "v": 600, "verdict": verdict}
        error = None if over is None else 8e-3 * over
        return {
            **found,
            "of": "dw" if over else None,
            "error": error,
            "allowed": 8e-3 if over else None,
            "reason": reason,
        }

    softcap, late = {"code": "no_option", "option": "softcap"}, {"code": "compile_time_used_up"}
    absent = {"code": "not_installed", "package": "quack-kernels"}
    rows = [
        case("eager", "plain", "bfloat16", "wrong", 2.3),
        case("eager", "plain", "float32", "right", 0.1),
        case("eager", "softcap", "bfloat16", "wrong", 5.1),
        case("torch", "plain", "bfloat16", "right", 0.7),
        case("torch", "plain", "float32", "right", 0.1),
        case("torch", "softcap", "bfloat16", "refused", None, softcap),
        case("compile", "plain", "bfloat16", "right", 0.9),
        case("compile", "plain", "float32", "right", 0.9),
        case("compile", "softcap", "bfloat16", "refused", None, late),
        case("quack", "plain", "bfloat16", "absent", None, absent),
        case("quack", "plain", "float32", "absent", None, absent),
        case("quack", "softcap", "bfloat16", "absent", None, absent),
        case("lab", "plain", "bfloat16", "right", 0.3),
        case("lab", "plain", "float32", "right", 0.1),
        case("lab", "softcap", "bfloat16", "right", 0.3),
    ]  # fmt: skip
    provenance = {"hardware": hardware, "date": "2026-11-28T10:00:00+00:00"}
    versions = {"eager": "2.11.0", "torch": "2.11.0", "compile": "2.11.0", "quack": None, "lab": "0.1.0"}
    return {"provenance": provenance, "seed": 42, "versions": versions, "cases": rows}
