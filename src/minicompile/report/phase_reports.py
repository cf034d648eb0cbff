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
    outcome, changed = equal["byte_equivalence_at_fp32_cpu"], equal["kernel_swap_changes_top1_token"]
    difference = text.number(equal["max_abs_diff_to_numpy_reference"], ".1e")
    return [
        Check(
            text("24.learns.asked", allowed=EXCESS_PERCENT),
            text("24.learns.found", excess=text.number(excess, ".2f")),
            excess <= EXCESS_PERCENT,
        ),
        *_kernel_checks(manifest, text),
        Check(
            text("24.port.asked", allowed=text.number(PORT_MATCH, ".0e")),
            text("24.port.found", outcome=text(f"24.port.{outcome}"), difference=difference),
            outcome == "passed",
        ),
        Check(text("24.swap.asked"), text("24.swap.changed" if changed else "24.swap.unchanged"), not changed),
        Check(text("24.internalized.asked"), _mapped(port, text), port["byte_equal"] and outcome == "passed"),
    ]


def _kernel_checks(manifest: dict, text: Translations) -> list[Check]:
    """Check the kernels' dots, the tuning and the speed; a stale record says nothing of the kernels as they are now."""
    kernels, is_stale = manifest["softmax_kernels"], (manifest.get("restored") or {}).get("stale", False)
    triton, stale = kernels.get("triton", {}), text("24.stale") if is_stale else ""
    ratio, picked = triton.get("frac_of_F_softmax"), triton.get("autotune_picked") or {}
    within_noise = ratio and abs(ratio - 1) <= triton["noise_floor"]
    timed = [name for name in DOTS if kernels.get(name, {}).get("frac_of_F_softmax")]
    tuned = ", ".join(f"{name} {text.number(value)}" for name, value in picked.items() if value is not None)
    where = manifest["gpu"]["model"] or manifest["device"]
    return [
        Check(
            text("24.dots.asked"),
            text("24.dots.found", names=", ".join(timed), stale=stale) if timed else text("24.dots.untimed"),
            None if is_stale or not timed else len(timed) == len(DOTS),
        ),
        Check(
            text("24.autotune.asked", rows=B512[0]),
            text("24.autotune.found", picked=tuned, stale=stale) if picked else text("24.autotune.untuned"),
            None if is_stale or not picked.get("BLOCK") else True,
        ),
        Check(
            text("24.triton.asked", rows=B512[0]),
            text(
                "24.triton.within_noise" if within_noise else "24.triton.found",
                ratio=text.number(ratio, ".2f"),
                place=where,
                stale=stale,
            )
            if ratio
            else text("24.triton.untimed"),
            ratio >= 1 if ratio and not is_stale else None,
        ),
    ]


def _mapped(port: dict, text: Translations) -> str:
    """Tell how many arrays are byte-equal, with a line of the table that maps NumPy's names to PyTorch's."""
    equal = [row for row in port["arrays"] if row["byte_equal"]]
    row = max(port["arrays"], key=lambda row: len(row["shape"]))  # a matrix: its order of axes is what goes wrong
    line = {"numpy": row["numpy_name"], "torch": row["torch_name"], "shape": shape(text.language, row["shape"])}
    return text("24.internalized.found", equal=len(equal), count=len(port["arrays"]), **line)


def checks_25(manifest: dict, distributed: Iterable[dict], language: str = "en") -> list[Check]:
    """Check what phase 25 asked of the compiler's pages and the survey, in the order of its lab.

    Args:
        manifest: stage 25's `manifest.json`.
        distributed: the `distributed.json` of every device surveyed.
        language: of the checks.
    """
    text = words(language)
    runs = list(distributed)
    devices = text("25.survey.joint").join(made["provenance"]["device"] for made in runs)
    return [
        *_compiler_checks(manifest, text),
        Check(
            text("25.survey.asked"),
            text("25.survey.found", devices=devices) if runs else text("25.survey.unmeasured"),
            bool(runs) or None,
        ),
        *_health_checks(manifest, text),
    ]


def _compiler_checks(manifest: dict, text: Translations) -> list[Check]:
    matches = [row["max_abs_difference"] for row in manifest["compile_match"] if row["model"] == "tiny_head"]
    worst, captures = max(matches, default=None), manifest["captures"]
    heads = [made for made in captures if made["model"] == "tiny_head"]
    softmax = sum(made["pattern"] == "softmax" for made in heads)
    return [
        Check(
            text("25.match.asked", allowed=text.number(COMPILE_MATCH, ".0e")),
            text("25.match.uncompiled")
            if worst is None
            else text("25.match.found", worst=text.number(worst, ".1e"), count=len(matches)),
            None if worst is None else worst <= COMPILE_MATCH,
        ),
        Check(
            text("25.kernel.asked"),
            text("25.kernel.found", count=len(captures), first=captures[0]["kernel"])
            if captures
            else text("25.kernel.none"),
            bool(captures),
        ),
        Check(
            text("25.pattern.asked"),
            text("25.pattern.found", softmax=softmax, count=len(heads)) if heads else text("25.pattern.none"),
            softmax == len(heads) if heads else None,
        ),
        Check(
            text("25.times.asked"),
            text("25.times.found", count=len(manifest["compile_match"])),
            bool(manifest["compile_match"]) or None,
        ),
    ]


def _health_checks(manifest: dict, text: Translations) -> list[Check]:
    captures, health = manifest["captures"], manifest["compile_health"]
    breaks, healthy = sum(made["graph_breaks"] for made in captures), sum(row["healthy"] for row in health)
    return [
        Check(text("25.breaks.asked"), text("25.breaks.found", breaks=breaks, captures=len(captures)), not breaks),
        Check(
            text("25.healthy.asked"),
            text("25.healthy.found", healthy=healthy, count=len(health)) if health else text("25.healthy.untried"),
            healthy == len(health) if health else None,
        ),
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
