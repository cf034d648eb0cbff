"""Writes the one-page reports that close phases 24 and 25: what was asked, what was found, whether it is met.

Each line of the list is worked out from the phase's manifest and the few artefacts beside it;
`templates/phase_report.md` prints it in the words of `locale/`. Nothing is said to be met that was not measured.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minicompile.report.words import shape
from minikernel.report.manifest import B512
from minilab.pages.templates import render
from minilab.pages.translations import Translations

EXCESS_PERCENT = 2  # held-out loss above the grammar's entropy, at most
PORT_MATCH = 1e-5  # largest difference of the port's logits from the NumPy model's
COMPILE_MATCH = 1e-6  # largest difference of TinyHead, compiled, from eager
DOTS = ("naive", "smem", "fused", "triton")  # what the roofline shall show; a kernel is timed only once it is proven


class Check(NamedTuple):
    """One thing that the phase asked for; `met` is None where it was not measured."""

    asked: str
    found: str
    met: bool | None


def words(language: str) -> Translations:
    """Return the words of both reports: their checks, their titles, and what their links are called."""
    return Translations("minicompile.report", "phases", language)


def _check(text: Translations, name: str, state: str, met: bool | None, **fields: object) -> Check:
    """Word what was asked of a thing, by its key, and what was found, by the key of the state that it is in."""
    return Check(text(f"{name}.asked", **fields), text(f"{name}.{state}", **fields), met)


def checks_24(manifest: dict, training: dict, port: dict, language: str = "en") -> list[Check]:
    """Check what phase 24 asked of the softmax kernels and the port, in the order of its lab.

    Args:
        manifest: stage 24's `manifest.json`.
        training: stage 17's `training.json`.
        port: stage 24's `port.json`.
        language: of the checks.
    """
    text = words(language)
    equal, excess = manifest["torch_port"], training["excess_percent"]
    passed = equal["byte_equivalence_at_fp32_cpu"] == "passed"
    changed = equal["kernel_swap_changes_top1_token"]
    learnt = {"allowed": EXCESS_PERCENT, "excess": text.number(excess, ".2f")}
    ported = {
        "allowed": text.number(PORT_MATCH, ".0e"),
        "outcome": text("24.port.passed" if passed else "24.port.failed"),
        "difference": text.number(equal["max_abs_diff_to_numpy_reference"], ".1e"),
    }
    return [
        _check(text, "24.learns", "found", excess <= EXCESS_PERCENT, **learnt),
        *_kernel_checks(manifest, text),
        _check(text, "24.port", "found", passed, **ported),
        _check(text, "24.swap", "changed" if changed else "unchanged", not changed),
        _check(text, "24.internalized", "found", port["byte_equal"] and passed, **_mapped(port, text)),
    ]


def _kernel_checks(manifest: dict, text: Translations) -> list[Check]:
    """Check the kernels' dots, the tuning and the speed; a stale record says nothing of the kernels as they are now."""
    kernels, is_stale = manifest["softmax_kernels"], (manifest.get("restored") or {}).get("stale", False)
    triton = kernels.get("triton", {})
    ratio, picked = triton.get("frac_of_F_softmax"), triton.get("autotune_picked") or {}
    within_noise = ratio and abs(ratio - 1) <= triton["noise_floor"]
    timed = [name for name in DOTS if kernels.get(name, {}).get("frac_of_F_softmax")]
    told = {
        "stale": text("24.stale") if is_stale else "",
        "rows": B512[0],
        "names": ", ".join(timed),
        "picked": ", ".join(f"{name} {text.number(value)}" for name, value in picked.items() if value is not None),
        "ratio": text.number(ratio, ".2f") if ratio else "",
        "place": manifest["gpu"]["model"] or manifest["device"],
    }
    speed = "within_noise" if within_noise else "found" if ratio else "untimed"
    met = [
        len(timed) == len(DOTS) if timed else None,
        True if picked.get("BLOCK") else None,
        ratio >= 1 if ratio else None,
    ]
    dots, tuned, fast = [None] * len(met) if is_stale else met
    return [
        _check(text, "24.dots", "found" if timed else "untimed", dots, **told),
        _check(text, "24.autotune", "found" if picked else "untuned", tuned, **told),
        _check(text, "24.triton", speed, fast, **told),
    ]


def _mapped(port: dict, text: Translations) -> dict:
    """Tell how many arrays are byte-equal, with a line of the table that maps NumPy's names to PyTorch's."""
    equal = [row for row in port["arrays"] if row["byte_equal"]]
    row = max(port["arrays"], key=lambda row: len(row["shape"]))  # a matrix: its order of axes is what goes wrong
    line = {"numpy": row["numpy_name"], "torch": row["torch_name"], "shape": shape(text.language, row["shape"])}
    return {"equal": len(equal), "count": len(port["arrays"]), **line}


def checks_25(manifest: dict, distributed: Iterable[dict], language: str = "en") -> list[Check]:
    """Check what phase 25 asked of the compiler's pages and the survey, in the order of its lab.

    Args:
        manifest: stage 25's `manifest.json`.
        distributed: the `distributed.json` of every device surveyed.
        language: of the checks.
    """
    text = words(language)
    runs, health = list(distributed), manifest["compile_health"]
    devices = text("25.survey.joint").join(made["provenance"]["device"] for made in runs)
    breaks = sum(made["graph_breaks"] for made in manifest["captures"])
    sound = {"healthy": sum(row["healthy"] for row in health), "count": len(health)}
    healthy = sound["healthy"] == sound["count"] if health else None
    return [
        *_compiler_checks(manifest, text),
        _check(text, "25.survey", "found" if runs else "unmeasured", bool(runs) or None, devices=devices),
        _check(text, "25.breaks", "found", not breaks, breaks=breaks, captures=len(manifest["captures"])),
        _check(text, "25.healthy", "found" if health else "untried", healthy, **sound),
    ]


def _compiler_checks(manifest: dict, text: Translations) -> list[Check]:
    captures, timings = manifest["captures"], len(manifest["compile_match"])
    matches = [row["max_abs_difference"] for row in manifest["compile_match"] if row["model"] == "tiny_head"]
    heads = [made for made in captures if made["model"] == "tiny_head"]
    softmax = sum(made["pattern"] == "softmax" for made in heads)
    worst, named = max(matches, default=None), softmax == len(heads) if heads else None
    equal = {
        "allowed": text.number(COMPILE_MATCH, ".0e"),
        "worst": "" if worst is None else text.number(worst, ".1e"),
        "count": len(matches),
    }
    state, near = ("uncompiled", None) if worst is None else ("found", worst <= COMPILE_MATCH)
    saved = {"count": len(captures), "first": captures[0]["kernel"] if captures else ""}
    return [
        _check(text, "25.match", state, near, **equal),
        _check(text, "25.kernel", "found" if captures else "none", bool(captures), **saved),
        _check(text, "25.pattern", "found" if heads else "none", named, softmax=softmax, count=len(heads)),
        _check(text, "25.times", "found", bool(timings) or None, count=timings),
    ]


def phase_report(
    phase: int,
    title: str,
    checks: list[Check],
    pictures: dict[str, str],
    files: dict[str, str],
    language: str = "en",
) -> str:
    """Write one phase's report, in Markdown.

    Args:
        phase: its number.
        title: what it was about.
        checks: of `checks_24` or `checks_25`.
        pictures: caption -> path, relative to the report.
        files: what a reader opens -> path, relative to the report.
        language: of the text, and so of all that is handed in.
    """
    values = {"phase": phase, "title": title, "checks": checks, "pictures": pictures, "files": files}
    return render("minicompile.report", "phase_report", language, values)
