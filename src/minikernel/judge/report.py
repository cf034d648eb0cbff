"""What is told of a kernel that was held against float64: proven up to a size, compiled alone, or why it is left out.

Torch and Triton are imported where they are used, since the caller sets up their caches before.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from minikernel.judge.entry import code_of, is_users
from minikernel.ops.ladder.table import spec_of
from minikernel.reasons import in_words
from minilab import LabError
from minilab.device import has_cpp_compiler, is_cpu, torch_device

NUMBERED = 2**31  # elements; with more of them an index in 32 bits is negative
log = logging.getLogger("minilab")


def proof_report(
    name: str, entry: dict | None, device: str, time_limit_seconds: float, shapes: list[list[int]]
) -> dict:
    """Prove a kernel where it can run; elsewhere compile it, or say that it was not run.

    Args:
        name, entry: of the kernel, as the configuration has a user's; None for one of the lab's own.
        device: its slug.
        time_limit_seconds: for a user's kernel.
        shapes: (rows, cols) at which a user's kernel will be timed.

    Returns:
        A proof as schemas/proof.schema.yaml describes it, without its provenance.

    Raises:
        LabError: the code changed meanwhile, or one of the lab's own kernels is wrong.
    """
    source = entry["source"] if entry else ""
    report: dict[str, Any] = {"kernel": name, "device": device, "verdict": "not run", "reason": None}
    report |= {"executed_by": None, "compiled": None, "cases": [], "proven_up_to": None, "code": code_of(name, entry)}
    if is_cpu(device) and source.endswith(".cu"):
        report["compiled"] = _compiled(name, entry)
    elif source.endswith(".cpp") and not has_cpp_compiler():
        log.info("%s: no C++ compiler here, so the kernel is not built", name)
    elif is_cpu(device) and source.endswith(".py") and not find_spec("triton"):
        log.info("%s: Triton is not installed, so the kernel is neither run nor compiled here", name)
    else:
        interpreted = is_cpu(device) and source.endswith(".py")
        if interpreted:
            os.environ["TRITON_INTERPRET"] = "1"  # read by Triton as it is imported
        report["executed_by"] = "triton-interpreter" if interpreted else "cpu" if is_cpu(device) else "cuda"
        report |= _proven(name, entry, torch_device(device), interpreted, time_limit_seconds, shapes)
    if code_of(name, entry) != report["code"]:
        raise LabError(f"kernel {name}: {report['code']['source']} changed while it was proven; run that again.")
    return report


def first_unproven(shapes: Iterable[Sequence[int]], proof: dict) -> list[int] | None:
    """The first shape with more elements than 32 bits can number, where the proof has none as large."""
    proven = max((case["rows"] * case["cols"] for case in proof["cases"]), default=0)
    return next((list(shape) for shape in shapes if proven < shape[0] * shape[1] > NUMBERED), None)


def _compiled(name: str, entry: dict | None) -> dict | None:
    from minikernel.proof.compile_cuda import compile_cuda

    spec = spec_of(name, entry)
    assert spec is not None  # the lab's own alone are files of CUDA C
    result = compile_cuda(spec.module)
    if result is None:
        log.info("%s: no GPU here, and neither nvcc nor NVRTC; neither run nor compiled", name)
    else:
        log.info("%s: %d instances compiled by %s, not run", name, len(result["kernels"]), result["compiler"])
    return result


def _proven(
    name: str,
    entry: dict | None,
    torch_device: str,
    interpreted: bool,
    time_limit_seconds: float,
    shapes: list[list[int]],
) -> dict:
    """The verdict and its cases. One of the lab's own kernels that fails ends the run; a user's is left out."""
    reason = None
    if entry is not None and is_users(name, entry):
        from minikernel.judge.proof import prove_users_kernel

        rows, reason = prove_users_kernel(name, entry, torch_device, time_limit_seconds, shapes)
    else:
        from minikernel.proof.proof import prove_kernel

        rows = prove_kernel(name, entry, torch_device, interpreted)
    if reason:
        log.warning("left out: %s", in_words(reason))
        return {"verdict": "left out", "reason": reason}
    largest = max(rows, key=lambda row: row["rows"] * row["cols"])
    log.info(
        "%s: %d cases up to %d x %d, largest relative error %.1e",
        name, len(rows), largest["rows"], largest["cols"], max(row["max_rel_err"] for row in rows),
    )  # fmt: skip
    return {"verdict": "proven", "cases": rows, "proven_up_to": [largest["rows"], largest["cols"]]}
