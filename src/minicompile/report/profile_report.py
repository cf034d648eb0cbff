"""What a profile's figures say, in sentences that follow from them: a section of the report.

The words are in locale/ and templates/profile_25.md; what is compared, and when a difference is one, is decided here.
"""

from functools import partial

from minicompile.pages import render
from minicompile.report.profile_roofline import short, time_text
from minilab.device import is_cpu
from minilab.translations import Translations

WITHIN_NOISE = 0.05  # two times of the same code differ by as much from run to run; a smaller gap is called none
PARTS = ("guards_us", "wrapper_us", "kernels_us", "libraries_us")


def _words(language: str) -> Translations:
    return Translations("minicompile", "profile", language)


def report(profile: dict, language: str = "en") -> str:
    """The section on one profile (profile.json), in Markdown."""
    text = _words(language)
    values = {
        "profile": profile,
        "name": profile["roofline"]["name"],
        "sentences": interpretation(profile, language),
        "parts": {part: text(f"parts.{part}") for part in PARTS},
        "attention": [{**row, "words": attention_sentences(row, language)} for row in profile["attention"]],
    }
    filters = {"time": partial(time_text, text), "bytes": partial(bytes_text, text), "short": short}
    return render("profile_25", language, values, filters=filters, trimmed=True)


def interpretation(profile: dict, language: str = "en") -> list[str]:
    """Honest sentences: where compiled is slower or faster, by how much, and which part of its time it is."""
    text = _words(language)
    sentences = [_speed(text, timing, profile) for timing in profile["timings"]]
    if is_cpu(profile["provenance"]["device"]) and any(t["mode"] == "reduce-overhead" for t in profile["timings"]):
        sentences.append(text("reduce_overhead"))
    sentences += [_parts(text, shape) for shape in profile["shapes"]]
    sentences += [_kernels(text, shape) for shape in profile["shapes"] if shape["kernels"]]
    recompiled = [timing for timing in profile["timings"] if timing["recompiles"] or timing["graph_breaks"]]
    if recompiled:
        worst = max(recompiled, key=lambda timing: timing["recompiles"] + timing["graph_breaks"])
        counts = {name: worst[name] for name in ("mode", "recompiles", "graph_breaks")}
        sentences.append(text("compiles.unclean", shape=_shape(worst), **counts))
    else:
        sentences.append(text("compiles.clean"))
    return sentences


def _speed(text: Translations, timing: dict, profile: dict) -> str:
    speedup = timing["speedup"]
    compiled, eager = (time_text(text, timing[side]["median_us"]) for side in ("compiled", "eager"))
    said = {
        "shape": _shape(timing),
        "mode": timing["mode"],
        "times": text("against", compiled=compiled, eager=eager),
        "factor": text.number(max(speedup, 1 / speedup), ".2f"),
    }
    if abs(speedup - 1) <= WITHIN_NOISE:
        return text("speed.same", **said)
    if speedup < 1:
        sentence = text("speed.slower", **said)
        split = next((one["split"] for one in profile["shapes"] if one["shape"] == timing["shape"]), None)
        if timing["mode"] == "default" and split and not split["overlapping"]:
            overhead = (split["guards_us"] + split["wrapper_us"]) / split["call_us"]
            sentence += " " + text("speed.overhead", share=text.number(overhead, ".0%"))
        return sentence
    compiling = timing["cold_compile_seconds"]
    calls = compiling / (1e-6 * (timing["eager"]["median_us"] - timing["compiled"]["median_us"]))
    return text("speed.faster", **said, compiling=text.number(compiling, ".1f"), calls=text.number(calls, ",.0f"))


def _parts(text: Translations, shape: dict) -> str:
    split = shape["split"]
    if split["overlapping"]:
        host, device = split["guards_us"] + split["wrapper_us"], split["kernels_us"] + split["libraries_us"]
        return text(
            "split.device_waits" if host > device else "split.host_waits",
            shape=_shape(shape),
            host=time_text(text, host),
            device=time_text(text, device),
        )
    shares = {key: split[key] / split["call_us"] for key in PARTS}
    ordered = sorted(PARTS, key=lambda key: -shares[key])
    told = [f"{text(f'parts.{key}')} {text.number(shares[key], '.0%')}" for key in ordered]
    sentence = text("split.shares", shape=_shape(shape), first=", ".join(told[:-1]), last=told[-1])
    unexplained = split["rest_us"] / split["call_us"]
    if abs(unexplained) > 2 * WITHIN_NOISE:
        sentence += " " + text("split.unexplained", share=text.number(unexplained, ".0%"))
    return sentence


def _kernels(text: Translations, shape: dict) -> str:
    slowest = max(shape["kernels"], key=lambda row: row["share_of_call"])
    best = max(shape["kernels"], key=lambda row: row["fraction_of_copy"])
    share = text.number(best["fraction_of_copy"], ".0%")
    if best is slowest:
        nearest = text("kernels.nearest_is_it", share=share)
    else:
        nearest = text("kernels.nearest", name=best["name"], share=share)
    reached = best["fraction_of_copy"]
    limit = "cached" if reached > 1 else "unlimited" if reached < 0.5 else "limited"
    of_call = text.number(slowest["share_of_call"], ".0%")
    first = text("kernels.slowest", shape=_shape(shape), name=slowest["name"], share=of_call)
    return f"{first} {text(f'kernels.{limit}', nearest=nearest)}"


def attention_sentences(row: dict, language: str = "en") -> list[str]:
    """What one comparison of attention says."""
    text = _words(language)
    explicit, fused = row["explicit"], row["fused"]
    core, other = explicit["core"], fused["core"]
    kernel = explicit["softmax_kernel"]
    sentences = [text("attention.one_kernel", kernel=kernel) if kernel else text("attention.no_kernel")]
    if fused["operator"] is None or not core["calls"]:
        return [*sentences, text("attention.untold")]
    sentences.append(
        text(
            "attention.fused",
            operator=fused["operator"],
            verdict=_verdict(text, core["us"] / other["us"]) or text("attention.same"),
            fused=time_text(text, other["us"]),
            written_out=time_text(text, core["us"]),
            fused_bytes=bytes_text(text, other["bytes"]),
            written_out_bytes=bytes_text(text, core["bytes"]),
        )
    )
    verdict = _verdict(text, explicit["split"]["call_us"] / fused["split"]["call_us"])
    return [*sentences, text("attention.whole", verdict=verdict) if verdict else text("attention.whole_same")]


def _verdict(text: Translations, ratio: float) -> str | None:
    """How many times as fast or as slow; None where the gap is within the noise."""
    factor = max(ratio, 1 / ratio)
    if factor - 1 <= WITHIN_NOISE:
        return None
    return text("attention.faster" if ratio > 1 else "attention.slower", factor=text.number(factor, ".2f"))


def _shape(holder: dict) -> str:
    return "(" + ", ".join(str(axis) for axis in holder["shape"]) + ")"


def bytes_text(text: Translations, count: float | None) -> str:
    """A number of bytes with its unit; nothing where it is not known."""
    if count is None:
        return ""
    scale, unit = (1e6, "MB") if count >= 1e6 else (1e3, "kB")
    return f"{text.number(count / scale, ',.3g')} {unit}"
