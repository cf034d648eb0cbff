"""Works out what a profile's figures say; `templates/profile_25.md` and `templates/profile_sentences.md` say it."""

from functools import partial
from itertools import groupby

from minicompile.profile.verdict import FASTER, SAME, gain, verdict
from minicompile.report import words
from minilab.device import is_cpu
from minilab.pages.templates import render, sentences
from minilab.pages.translations import Translations, number

UNEXPLAINED = 0.1  # of a call; what timing each part costs is of that size
TOO_MUCH = 1.5  # times a call: parts that add up to more were timed while something else ran
ANOTHER_CALL = 3  # times the call that was timed: one that took longer while it was taken apart is another
OTHERS_SHARE = 0.05  # of the machine's processor time: less is not told
UNRELIABLE = 0.25  # a kernel whose two quietest rounds differ by more is drawn hatched, and nothing is said of it
DEARER = 1.5  # times a compile's seconds: each was timed once, and two of one mode differ by a third at other shapes
ABOVE_A_COPY = 1.02  # of a copy's bandwidth: what is nearer to it needs no reason
BEYOND_A_CACHE = 10  # times a copy's bandwidth: no cache here is so fast, so it is the copy that was timed badly
PARTS = ("guards_us", "wrapper_us", "kernels_us", "libraries_us")


def report(profile: dict, language: str = "en") -> str:
    """Write the page on one profile (profile.json), in Markdown."""
    values = {
        "profile": profile,
        "sentences": interpretation(profile, language),
        "left_out": left_out(profile, language),
        "parts": PARTS,
        "datasheet": profile["roofline"]["datasheet_gb_per_s"],
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


def left_out(profile: dict, language: str = "en") -> list[str]:
    """Say what of a user's model could not be measured, and why: a sentence each."""
    text = Translations("minicompile.report", "profile", language)
    told = []
    for row in profile["left_out"]:
        mode = "apart" if row["mode"] is None else "mode"
        reason = {name: str(value).rstrip(".") for name, value in row["reason"].items() if name != "code"}
        why = text(f"left_out.{row['reason']['code']}", **reason)
        told.append(text(f"left_out.{mode}", model=profile["model"], name=row["mode"], why=why))
    return told


def share(language: str, value: float) -> str:
    """Write a share in per cent: whole from 10 % on, with a digit below, and a small one as `under 0.1%`."""
    if value == 0 or value >= 0.0995:
        return number(language, value, ",.0%")
    if value < 0.001:
        return Translations("minicompile.report", "profile", language)("under", share=number(language, 0.001, ".1%"))
    return number(language, value, ".1%")


def rate(language: str, gb_per_s: float) -> str:
    """Write a bandwidth in GB/s with three digits, whole from 100 on."""
    return number(language, gb_per_s, ",.0f" if gb_per_s >= 99.5 else ".3g")


def reliable(kernel: dict) -> bool:
    """Say whether a kernel's two quietest rounds gave about the same time."""
    return kernel["noise"] <= UNRELIABLE


def _filters(language: str) -> dict:
    text = Translations("minicompile.report", "profile", language)
    labels = {"part": lambda name: text(f"parts.{name}"), "unit": lambda name: text(f"units.{name}")}
    return {**words.filters(language), **labels, "share": partial(share, language), "rate": partial(rate, language)}


def findings(profile: dict) -> list[dict]:
    """What a profile's figures show, each as a `code` and its figures."""
    timings = profile["timings"]
    found = [_speed(timing, profile) for timing in timings]
    for _, rows in groupby(timings, key=lambda timing: timing["shape"]):
        found += _dearer_and_slower(list(rows))
    if is_cpu(profile["provenance"]["device"]) and any(t["mode"] == "reduce-overhead" for t in timings):
        found.append({"code": "reduce_overhead"})
    busy = [row for row in profile["busy"] if (row["busy"]["others_share"] or 0) >= OTHERS_SHARE]
    found += [{"code": "busy", "shape": row["shape"], **row["busy"]} for row in busy]
    parts = [_parts(shape, _timed_call(shape, timings)) for shape in profile["shapes"]]
    found += parts
    same = [shape for shape, told in zip(profile["shapes"], parts, strict=True) if told["code"] != "another_call"]
    found += [_kernels(shape) for shape in same if any(map(reliable, shape["kernels"]))]
    again = [timing for timing in timings if timing["recompiles"] or timing["graph_breaks"]]
    if not again:
        return [*found, {"code": "compiled_once"}] if timings else found
    worst = max(again, key=lambda timing: timing["recompiles"] + timing["graph_breaks"])
    counts = {name: worst[name] for name in ("shape", "mode", "recompiles", "graph_breaks")}
    return [*found, {"code": "compiled_again", **counts}]


def _speed(timing: dict, profile: dict) -> dict:
    speedup, eager, compiled = timing["speedup"], timing["eager"]["median_us"], timing["compiled"]["median_us"]
    found = {"shape": timing["shape"], "mode": timing["mode"], "eager_us": eager, "compiled_us": compiled}
    if timing["verdict"] == SAME:
        return {"code": "as_fast", **found, "noise": timing["noise"]}
    if timing["verdict"] == FASTER:
        compiling = timing["cold_compile_seconds"]
        calls = compiling / (1e-6 * (eager - compiled))
        return {"code": "faster", **found, "factor": speedup, "compile_seconds": compiling, "calls": calls}
    split = next((one["split"] for one in profile["shapes"] if one["shape"] == timing["shape"]), None)
    overhead = None  # is known of the mode that was broken down, where host and device do not overlap
    if timing["mode"] == "default" and split and not split["overlapping"] and not _another(split, compiled):
        overhead = (split["guards_us"] + split["wrapper_us"]) / split["call_us"]
    return {"code": "slower", **found, "factor": 1 / speedup, "overhead": overhead}


def _dearer_and_slower(timings: list[dict]) -> list[dict]:
    """The modes of one shape that compile for much longer than the fastest mode and yet run slower than it."""
    best = min(timings, key=lambda timing: timing["compiled"]["median_us"])
    found = []
    for timing in timings:
        us, best_us = timing["compiled"]["median_us"], best["compiled"]["median_us"]
        noise = max(timing["compiled"]["noise"], best["compiled"]["noise"])
        dearer = timing["cold_compile_seconds"] > DEARER * best["cold_compile_seconds"]
        if dearer and verdict(gain(us, best_us), noise) == FASTER:
            sides = {"mode": timing["mode"], "us": us, "seconds": timing["cold_compile_seconds"], "than": best["mode"]}
            least = {"than_us": best_us, "than_seconds": best["cold_compile_seconds"]}
            found.append({"code": "dearer_and_slower", "shape": timing["shape"], **sides, **least})
    return found


def _timed_call(shape: dict, timings: list[dict]) -> float | None:
    """The microseconds of a compiled call at a shape in the mode that was taken apart; None where it was not timed."""
    at = [timing for timing in timings if (timing["shape"], timing["mode"]) == (shape["shape"], "default")]
    return at[0]["compiled"]["median_us"] if at else None


def _another(split: dict, timed_us: float) -> bool:
    """Whether the call that was taken apart took so much longer than the one that was timed that it was another."""
    return split["call_us"] > ANOTHER_CALL * timed_us


def _parts(shape: dict, timed_us: float | None) -> dict:
    split = shape["split"]
    if split["overlapping"]:
        host, device = split["guards_us"] + split["wrapper_us"], split["kernels_us"] + split["libraries_us"]
        return {"code": "overlapping", "shape": shape["shape"], "host_us": host, "device_us": device}
    shares = sorted(((name, split[name] / split["call_us"]) for name in PARTS), key=lambda part: -part[1])
    rest = split["rest_us"] / split["call_us"]
    told = shape["busy"] if (shape["busy"]["others_share"] or 0) >= OTHERS_SHARE else None
    if timed_us is not None and _another(split, timed_us):
        calls = {"call_us": split["call_us"], "timed_us": timed_us}
        return {"code": "another_call", "shape": shape["shape"], **calls, "busy": told}
    if 1 - rest > TOO_MUCH:
        return {"code": "no_shares", "shape": shape["shape"], "sum": 1 - rest, "busy": told}
    unexplained = rest if abs(rest) > UNEXPLAINED else None
    return {"code": "shares", "shape": shape["shape"], "parts": shares, "unexplained": unexplained, "busy": told}


def _kernels(shape: dict) -> dict:
    kernels = [row for row in shape["kernels"] if reliable(row)]
    slowest = max(kernels, key=lambda row: row["share_of_call"])
    nearest = max(kernels, key=lambda row: row["fraction_of_copy"])
    return {
        "code": "kernels",
        "shape": shape["shape"],
        "slowest": slowest["name"],
        "share_of_call": slowest["share_of_call"],
        "nearest": nearest["name"],
        "fraction_of_copy": nearest["fraction_of_copy"],
        "above": nearest["fraction_of_copy"] > ABOVE_A_COPY,
        "doubtful": nearest["fraction_of_copy"] > BEYOND_A_CACHE,
        "unreliable": len(shape["kernels"]) - len(kernels),
    }


def attention_findings(row: dict) -> list[dict]:
    """What one comparison of attention shows, each as a `code` and its figures."""
    explicit, fused = row["explicit"], row["fused"]
    kernel, core, other = explicit["softmax_kernel"], explicit["core"], fused["core"]
    found: list[dict] = [{"code": "softmax_kernel", "kernel": kernel} if kernel else {"code": "no_softmax_kernel"}]
    noise = {what: max(side["noise"][what] for side in (explicit, fused)) for what in ("call", "core")}
    if fused["operator"] is None or not core["calls"]:
        found.append({"code": "attention_not_found"})
    else:
        sides = {"operator": fused["operator"], "written_out": core, "fused": other}
        found.append({"code": "fused_attention", **sides, **_ratio(core["us"], other["us"], noise["core"])})
        calls = explicit["split"]["call_us"], fused["split"]["call_us"]
        found.append({"code": "whole_model", **_ratio(*calls, noise["call"])})
    apart = {"difference": row["max_difference"], "largest": row["largest_output"]}
    return [*found, {"code": "outputs", "dtype": row["dtype"], **apart, "from_float32": row["from_float32"]}]


def _ratio(before: float, after: float, noise: float) -> dict:
    """How many times as fast, and the `verdict`."""
    told = verdict(gain(before, after), noise)
    return {"factor": before / after, "verdict": told, "before_us": before, "after_us": after}
