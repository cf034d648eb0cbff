"""The one-page reports that close phases 24 and 25: what was asked, what was found, whether it is met.

Each line of the list is worked out from the phase's manifest and the few artefacts beside it;
`templates/phase_report.md` prints it. Nothing is said to be met that was not measured.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minilab import templates

COMPILE_MATCH = 1e-6  # largest difference of TinyHead, compiled, from eager


class Check(NamedTuple):
    """One thing that the phase asked for; `met` is None where it was not measured."""

    asked: str
    found: str
    met: bool | None


def checks_24(manifest: dict, training: dict) -> list[Check]:
    """Phase 24: the softmax kernels and the port.

    Args:
        manifest: stage 24's `manifest.json`.
        training: stage 17's `training.json`.
    """
    port, triton = manifest["torch_port"], manifest["softmax_kernels"].get("triton", {})
    ratio, picked = triton.get("frac_of_F_softmax"), triton.get("autotune_picked") or {}
    where = manifest["gpu"]["model"] or manifest["device"]
    is_stale = manifest.get("restored", {}).get("stale", False)  # it says nothing of the kernels as they are now
    stale = " (a stale record)" if is_stale else ""
    return [
        Check(
            "the model learns its grammar to within 2 % of the entropy",
            f"{training['excess_percent']:.2f} % above it",
            training["excess_percent"] <= 2,
        ),
        Check(
            "the PyTorch port equals the NumPy model on a CPU, within 1e-5",
            f"{port['byte_equivalence_at_fp32_cpu']}; largest difference {port['max_abs_diff_to_numpy_reference']:.1e}",
            port["byte_equivalence_at_fp32_cpu"] == "passed",
        ),
        Check(
            "the kernel swap leaves the prediction as it was",
            "changed" if port["kernel_swap_changes_top1_token"] else "unchanged",
            not port["kernel_swap_changes_top1_token"],
        ),
        Check(
            "autotune picks a configuration of the Triton kernel at 512 rows",
            f"{', '.join(f'{name} {value}' for name, value in picked.items())}{stale}"
            if picked
            else "nothing tuned here",
            None if is_stale or not picked.get("BLOCK") else True,
        ),
        Check(
            "the Triton kernel is at least as fast as F.softmax at 512 rows",
            f"{ratio:.2f} times as fast on {where}{stale}" if ratio else "not timed here",
            ratio >= 1 if ratio and not is_stale else None,
        ),
    ]


def checks_25(manifest: dict, distributed: Iterable[dict]) -> list[Check]:
    """Phase 25: the compiler opened, and the survey.

    Args:
        manifest: stage 25's `manifest.json`.
        distributed: the `distributed.json` of every device surveyed.
    """
    matches = [row for row in manifest["compile_match"] if row["model"] == "tiny_head"]
    worst = max((row["max_abs_difference"] for row in matches), default=None)
    captures, health, runs = manifest["captures"], manifest["compile_health"], list(distributed)
    return [
        Check(
            f"TinyHead compiled equals eager within {COMPILE_MATCH:.0e}",
            "not compiled here" if worst is None else f"largest difference {worst:.1e} over {len(matches)} runs",
            None if worst is None else worst <= COMPILE_MATCH,
        ),
        Check(
            "a kernel of Inductor's is saved and annotated",
            ", ".join(f"`{made['kernel']}`" for made in captures) or "none",
            bool(captures),
        ),
        Check(
            "nothing breaks the models' graphs",
            f"{sum(made['graph_breaks'] for made in captures)} graph breaks in {len(captures)} captures",
            not any(made["graph_breaks"] for made in captures),
        ),
        Check(
            "every captured model compiles safely, and computes what eager does",
            f"{sum(row['healthy'] for row in health)} of {len(health)} compiles are healthy"
            if health
            else "not tried here",
            all(row["healthy"] for row in health) if health else None,
        ),
        Check(
            "the four distributed patterns are told apart, and measured",
            "on " + " and ".join(made["provenance"]["device"] for made in runs) if runs else "not measured here",
            bool(runs) or None,
        ),
    ]


def phase_report(phase: int, title: str, checks: list[Check], pictures: dict[str, str], files: dict[str, str]) -> str:
    """Write one phase's report, in Markdown.

    Args:
        phase: its number.
        title: what it was about.
        checks: of `checks_24` or `checks_25`.
        pictures: caption -> path, relative to the report.
        files: what a reader opens -> path, relative to the report.
    """
    template = templates.environment("minicompile").get_template("phase_report.md")
    return template.render(phase=phase, title=title, checks=checks, pictures=pictures, files=files)
