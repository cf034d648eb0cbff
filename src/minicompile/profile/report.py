"""What a profile's figures say, in sentences that follow from them: a section of the report.

The words are in templates/profile_25.md; what is compared, and when a difference is one, is decided here.
"""

from minicompile.profile.roofline import short, time_text
from minilab import templates
from minilab.device import is_cpu

WITHIN_NOISE = 0.05  # two times of the same code differ by as much from run to run; a smaller gap is called none
PARTS = {
    "guards_us": "guards and prologue",
    "wrapper_us": "the wrapper",
    "kernels_us": "the generated kernels",
    "libraries_us": "library calls",
}


def report(profile: dict) -> str:
    """The section on one profile (profile.json), in Markdown."""
    environment = templates.environment("minicompile", trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(time=time_text, bytes=bytes_text, short=short)
    return environment.get_template("profile_25.md").render(
        profile=profile,
        name=profile["roofline"]["name"],
        sentences=interpretation(profile),
        parts=PARTS,
        attention=[{**row, "words": attention_sentences(row)} for row in profile["attention"]],
    )


def interpretation(profile: dict) -> list[str]:
    """Honest sentences: where compiled is slower or faster, by how much, and which part of its time it is."""
    sentences = [_speed(timing, profile) for timing in profile["timings"]]
    if is_cpu(profile["provenance"]["device"]) and any(t["mode"] == "reduce-overhead" for t in profile["timings"]):
        sentences.append(
            "On a CPU `reduce-overhead` makes the same code as `default`, for all that it switches on is CUDA graphs: "
            "what its times differ by is noise."
        )
    sentences += [_parts(shape) for shape in profile["shapes"]]
    sentences += [_kernels(shape) for shape in profile["shapes"] if shape["kernels"]]
    recompiled = [timing for timing in profile["timings"] if timing["recompiles"] or timing["graph_breaks"]]
    if recompiled:
        worst = max(recompiled, key=lambda timing: timing["recompiles"] + timing["graph_breaks"])
        sentences.append(
            f"Not every compile is clean: at {_shape(worst)} in mode {worst['mode']} there are {worst['recompiles']} "
            f"recompiles among the timed calls and {worst['graph_breaks']} graph breaks."
        )
    else:
        sentences.append("No timed call compiled anything again, and no graph breaks.")
    return sentences


def _speed(timing: dict, profile: dict) -> str:
    speedup = timing["speedup"]
    times = f"{time_text(timing['compiled']['median_us'])} against {time_text(timing['eager']['median_us'])}"
    there = f"At {_shape(timing)} `{timing['mode']}`"
    if abs(speedup - 1) <= WITHIN_NOISE:
        return f"{there} takes what eager takes, {times}."
    if speedup < 1:
        sentence = f"{there} is **slower** than eager and takes {1 / speedup:.2f} times as long, {times}."
        split = next((one["split"] for one in profile["shapes"] if one["shape"] == timing["shape"]), None)
        if timing["mode"] == "default" and split and not split["overlapping"]:
            overhead = (split["guards_us"] + split["wrapper_us"]) / split["call_us"]
            sentence += f" Guards and wrapper, which eager does not have, are {overhead:.0%} of a compiled call."
        return sentence
    compiling = timing["cold_compile_seconds"]
    calls = compiling / (1e-6 * (timing["eager"]["median_us"] - timing["compiled"]["median_us"]))
    return (
        f"{there} is {speedup:.2f} times as fast as eager, {times}; a cold compile of {compiling:.1f} s is paid back "
        f"after {calls:,.0f} calls."
    )


def _parts(shape: dict) -> str:
    split = shape["split"]
    if split["overlapping"]:
        host, device = split["guards_us"] + split["wrapper_us"], split["kernels_us"] + split["libraries_us"]
        return (
            f"At {_shape(shape)} the host needs {time_text(host)} for guards and launches, the device "
            f"{time_text(device)} for its kernels: "
            f"{'the device waits for the host' if host > device else 'the host waits for the device'}."
        )
    shares = {key: split[key] / split["call_us"] for key in PARTS}
    ordered = sorted(PARTS, key=lambda key: -shares[key])
    told = [f"{PARTS[key]} {shares[key]:.0%}" for key in ordered]
    sentence = f"At {_shape(shape)} the compiled call's time is {', '.join(told[:-1])} and {told[-1]}."
    unexplained = split["rest_us"] / split["call_us"]
    if abs(unexplained) > 2 * WITHIN_NOISE:
        sentence += f" That leaves {unexplained:.0%} unexplained: the machine was busy with something else."
    return sentence


def _kernels(shape: dict) -> str:
    slowest = max(shape["kernels"], key=lambda row: row["share_of_call"])
    best = max(shape["kernels"], key=lambda row: row["fraction_of_copy"])
    sentence = (
        f"At {_shape(shape)} the generated kernel with most time is `{slowest['name']}`, "
        f"{slowest['share_of_call']:.0%} of the call. Nearest to the memory's limit is "
        f"{'it' if best is slowest else 'kernel `' + best['name'] + '`'}, with {best['fraction_of_copy']:.0%} of a "
        f"copy's bandwidth"
    )
    if best["fraction_of_copy"] > 1:
        return sentence + ": its data lies in the cache, or it reads less than Inductor counts."
    if best["fraction_of_copy"] < 0.5:
        return sentence + ": no kernel here is limited by memory, each is over before the memory is busy."
    return sentence + "."


def attention_sentences(row: dict) -> list[str]:
    """What one comparison of attention says."""
    explicit, fused = row["explicit"], row["fused"]
    core, other = explicit["core"], fused["core"]
    kernel = explicit["softmax_kernel"]
    sentences = [
        f"Written out, the softmax over the scores is `{kernel}`, between two matrix products."
        if kernel
        else "Written out, no generated kernel holds the softmax over the scores: Inductor made something else of it."
    ]
    if fused["operator"] is None or not core["calls"]:
        return [*sentences, "One of the two sides has no attention that can be told apart, so no times are compared."]
    faster = core["us"] > other["us"]
    ratio = max(core["us"], other["us"]) / min(core["us"], other["us"])
    verdict = (
        "no different in time" if ratio - 1 <= WITHIN_NOISE else f"{ratio:.2f} times as {'fast' if faster else 'slow'}"
    )
    sentences.append(
        f"Fused, it is one call of `{fused['operator']}` a layer, {verdict}: {time_text(other['us'])} against "
        f"{time_text(core['us'])} for all layers, with {bytes_text(other['bytes'])} moved instead of "
        f"{bytes_text(core['bytes'])}, as Inductor counts."
    )
    whole = explicit["split"]["call_us"] / fused["split"]["call_us"]
    if abs(whole - 1) <= WITHIN_NOISE:
        sentences.append("The whole compiled model takes the same time with either.")
    else:
        sentences.append(
            f"The whole compiled model is {max(whole, 1 / whole):.2f} times as {'fast' if whole > 1 else 'slow'}."
        )
    return sentences


def _shape(holder: dict) -> str:
    return "(" + ", ".join(str(axis) for axis in holder["shape"]) + ")"


def bytes_text(count: float | None) -> str:
    """A number of bytes with its unit; nothing where it is not known."""
    if count is None:
        return ""
    return f"{count / 1e6:,.3g} MB" if count >= 1e6 else f"{count / 1e3:,.3g} kB"
