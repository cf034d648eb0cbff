"""Works out what a profile's figures say; `templates/profile_25.md` and `templates/profile_sentences.md` say it."""

from minicompile.report import words
from minilab.device import is_cpu
from minilab.templates import render, sentences
from minilab.translations import Translations

WITHIN_NOISE = 0.05  # two times of the same code differ by as much from run to run; a smaller gap is called none
PARTS = ("guards_us", "wrapper_us", "kernels_us", "libraries_us")


def report(profile: dict, language: str = "en") -> str:
    """Write the page on one profile (profile.json), in Markdown."""
    values = {
        "profile": profile,
        "sentences": interpretation(profile, language),
        "parts": PARTS,
        "attention": [{**row, "words": attention_sentences(row, language)} for row in profile["attention"]],
    }
    return render("minicompile.report", "profile_25", language, values, filters=_filters(language), trimmed=True)


def interpretation(profile: dict, language: str = "en") -> list[str]:
    """Say where compiled is slower or faster, by how much, and which part of its time it is: a sentence or two each."""
    return sentences("minicompile.report", "profile_sentences", language, findings(profile), filters=_filters(language))


def attention_sentences(row: dict, language: str = "en") -> list[str]:
    """Say what one comparison of attention shows, one of a profile's `attention`."""
    found = attention_findings(row)
    return sentences("minicompile.report", "profile_sentences", language, found, filters=_filters(language))


def _filters(language: str) -> dict:
    text = Translations("minicompile.report", "profile", language)
    labels = {"part": lambda name: text(f"parts.{name}"), "unit": lambda name: text(f"units.{name}")}
    return {**words.filters(language), **labels}


def findings(profile: dict) -> list[dict]:
    """What a profile's figures show, each as a `code` and its figures."""
    found = [_speed(timing, profile) for timing in profile["timings"]]
    if is_cpu(profile["provenance"]["device"]) and any(t["mode"] == "reduce-overhead" for t in profile["timings"]):
        found.append({"code": "reduce_overhead"})
    found += [_parts(shape) for shape in profile["shapes"]]
    found += [_kernels(shape) for shape in profile["shapes"] if shape["kernels"]]
    again = [timing for timing in profile["timings"] if timing["recompiles"] or timing["graph_breaks"]]
    if not again:
        return [*found, {"code": "compiled_once"}]
    worst = max(again, key=lambda timing: timing["recompiles"] + timing["graph_breaks"])
    counts = {name: worst[name] for name in ("shape", "mode", "recompiles", "graph_breaks")}
    return [*found, {"code": "compiled_again", **counts}]


def _speed(timing: dict, profile: dict) -> dict:
    speedup, eager, compiled = timing["speedup"], timing["eager"]["median_us"], timing["compiled"]["median_us"]
    found = {"shape": timing["shape"], "mode": timing["mode"], "eager_us": eager, "compiled_us": compiled}
    if abs(speedup - 1) <= WITHIN_NOISE:
        return {"code": "as_fast", **found}
    if speedup > 1:
        compiling = timing["cold_compile_seconds"]
        calls = compiling / (1e-6 * (eager - compiled))
        return {"code": "faster", **found, "factor": speedup, "compile_seconds": compiling, "calls": calls}
    split = next((one["split"] for one in profile["shapes"] if one["shape"] == timing["shape"]), None)
    overhead = None  # is known of the mode that was broken down, where host and device do not overlap
    if timing["mode"] == "default" and split and not split["overlapping"]:
        overhead = (split["guards_us"] + split["wrapper_us"]) / split["call_us"]
    return {"code": "slower", **found, "factor": 1 / speedup, "overhead": overhead}


def _parts(shape: dict) -> dict:
    split = shape["split"]
    if split["overlapping"]:
        host, device = split["guards_us"] + split["wrapper_us"], split["kernels_us"] + split["libraries_us"]
        return {"code": "overlapping", "shape": shape["shape"], "host_us": host, "device_us": device}
    shares = sorted(((name, split[name] / split["call_us"]) for name in PARTS), key=lambda part: -part[1])
    rest = split["rest_us"] / split["call_us"]
    unexplained = rest if abs(rest) > 2 * WITHIN_NOISE else None
    return {"code": "shares", "shape": shape["shape"], "parts": shares, "unexplained": unexplained}


def _kernels(shape: dict) -> dict:
    slowest = max(shape["kernels"], key=lambda row: row["share_of_call"])
    nearest = max(shape["kernels"], key=lambda row: row["fraction_of_copy"])
    return {
        "code": "kernels",
        "shape": shape["shape"],
        "slowest": slowest["name"],
        "share_of_call": slowest["share_of_call"],
        "nearest": nearest["name"],
        "fraction_of_copy": nearest["fraction_of_copy"],
    }


def attention_findings(row: dict) -> list[dict]:
    """What one comparison of attention shows, each as a `code` and its figures."""
    explicit, fused = row["explicit"], row["fused"]
    kernel, core, other = explicit["softmax_kernel"], explicit["core"], fused["core"]
    found = [{"code": "softmax_kernel", "kernel": kernel} if kernel else {"code": "no_softmax_kernel"}]
    if fused["operator"] is None or not core["calls"]:
        return [*found, {"code": "attention_not_found"}]
    sides = {"operator": fused["operator"], "written_out": core, "fused": other}
    found.append({"code": "fused_attention", **sides, **_ratio(core["us"] / other["us"])})
    return [*found, {"code": "whole_model", **_ratio(explicit["split"]["call_us"] / fused["split"]["call_us"])}]


def _ratio(factor: float) -> dict:
    """How many times as fast, and whether that is `same`, within the noise."""
    return {"factor": factor, "same": max(factor, 1 / factor) - 1 <= WITHIN_NOISE}
