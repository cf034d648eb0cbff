"""Writes the one-page reports that close phases 24 and 25: what was asked, what was found, whether it is met.

Each line of the list is worked out from the phase's manifest and the few artefacts beside it;
`templates/phase_report.md` prints it in the words of `locale/`. Nothing is said to be met that was not measured.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minilab.templates import render
from minilab.translations import Translations

COMPILE_MATCH = 1e-6  # largest difference of TinyHead, compiled, from eager


class Check(NamedTuple):
    """One thing that the phase asked for; `met` is None where it was not measured."""

    asked: str
    found: str
    met: bool | None


def words(language: str) -> Translations:
    """Return the words of both reports: their checks, their titles, and what their links are called."""
    return Translations("minicompile.report", "phases", language)


def checks_24(manifest: dict, training: dict, language: str = "en") -> list[Check]:
    """Check what phase 24 asked of the softmax kernels and the port.

    Args:
        manifest: stage 24's `manifest.json`.
        training: stage 17's `training.json`.
        language: of the checks.
    """
    text = words(language)
    port, triton = manifest["torch_port"], manifest["softmax_kernels"].get("triton", {})
    ratio, picked = triton.get("frac_of_F_softmax"), triton.get("autotune_picked") or {}
    is_stale = (manifest.get("restored") or {}).get("stale", False)  # it says nothing of the kernels as they are now
    stale = text("24.stale") if is_stale else ""
    fast = {
        "ratio": text.number(ratio, ".2f") if ratio else None,
        "place": manifest["gpu"]["model"] or manifest["device"],
        "stale": stale,
    }
    outcome = port["byte_equivalence_at_fp32_cpu"]
    return [
        Check(
            text("24.learns.asked"),
            text("24.learns.found", excess=text.number(training["excess_percent"], ".2f")),
            training["excess_percent"] <= 2,
        ),
        Check(
            text("24.port.asked"),
            text(
                "24.port.found",
                outcome=text(f"24.port.{outcome}"),
                difference=text.number(port["max_abs_diff_to_numpy_reference"], ".1e"),
            ),
            outcome == "passed",
        ),
        Check(
            text("24.swap.asked"),
            text("24.swap.changed" if port["kernel_swap_changes_top1_token"] else "24.swap.unchanged"),
            not port["kernel_swap_changes_top1_token"],
        ),
        Check(
            text("24.autotune.asked"),
            text(
                "24.autotune.found", picked=", ".join(" ".join(map(str, pair)) for pair in picked.items()), stale=stale
            )
            if picked
            else text("24.autotune.untuned"),
            None if is_stale or not picked.get("BLOCK") else True,
        ),
        Check(
            text("24.triton.asked"),
            text("24.triton.found", **fast) if ratio else text("24.triton.untimed"),
            ratio >= 1 if ratio and not is_stale else None,
        ),
    ]


def checks_25(manifest: dict, distributed: Iterable[dict], language: str = "en") -> list[Check]:
    """Check what phase 25 asked of the compiler's pages and the survey.

    Args:
        manifest: stage 25's `manifest.json`.
        distributed: the `distributed.json` of every device surveyed.
        language: of the checks.
    """
    text = words(language)
    matches = [row for row in manifest["compile_match"] if row["model"] == "tiny_head"]
    worst = max((row["max_abs_difference"] for row in matches), default=None)
    captures, health, runs = manifest["captures"], manifest["compile_health"], list(distributed)
    breaks = sum(made["graph_breaks"] for made in captures)
    healthy = sum(row["healthy"] for row in health)
    devices = text("25.survey.joint").join(made["provenance"]["device"] for made in runs)
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
            ", ".join(f"`{made['kernel']}`" for made in captures) or text("25.kernel.none"),
            bool(captures),
        ),
        Check(text("25.breaks.asked"), text("25.breaks.found", breaks=breaks, captures=len(captures)), not breaks),
        Check(
            text("25.healthy.asked"),
            text("25.healthy.found", healthy=healthy, count=len(health)) if health else text("25.healthy.untried"),
            healthy == len(health) if health else None,
        ),
        Check(
            text("25.survey.asked"),
            text("25.survey.found", devices=devices) if runs else text("25.survey.unmeasured"),
            bool(runs) or None,
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
