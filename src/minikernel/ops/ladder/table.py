"""The ladder: every rung in its order, those among them that nothing else uses, and what they are held against.

Whoever loads a kernel by its name imports it from here, because the rungs join the registry's table when this module
is imported. Those described here stand apart from the registry because the operator, the tuning and the contest use
none of them: what these measured does not become stale when a rung is added. The table names the others too, so that a
job on one kernel depends on that entry alone (`minilab.records.sources.closure`).
"""

from minikernel.ops.registry import HERE, SPECS, KernelSpec, kernels, load_kernel, load_user_kernel, spec_of

__all__ = ["LADDERS", "TABLE", "kernels", "load_kernel", "load_user_kernel", "spec_of"]

REFERENCE = "F.softmax"
LANGUAGES = {".cu": "CUDA C", ".py": "Triton", ".cpp": "C++"}  # by the ending of a kernel's source


def _rung(name: str, module: str, source: str, function: str | None = None, **more) -> KernelSpec:
    """Describe a rung; `source` is relative to the room of kernels."""
    return KernelSpec(name, module, function or name, HERE / source, **more)


def _on_a_cpu(name: str, module: str, source: str) -> KernelSpec:
    return _rung(name, module, source, dtypes=("float32",), accurate=True)


# The order is that of the lesson, not of the speed: each language begins again at its simplest rung.
TABLE = {
    "F.softmax": SPECS["F.softmax"],
    "naive": SPECS["naive"],
    "smem": SPECS["smem"],
    "warp": _rung("warp", "minikernel.ops.ladder.softmax_warp", "cuda/warp.cu", accurate=True),
    "fused": SPECS["fused"],
    "triton_textbook": _rung(
        "triton_textbook",
        "minikernel.ops.ladder.softmax_triton_textbook",
        "ladder/softmax_triton_textbook.py",
        "softmax",
        dtypes=("float32",),
    ),
    "triton": SPECS["triton"],
    "loop": _on_a_cpu("loop", "minikernel.ops.cpu.rungs", "cpu/loop.cpp"),
    "vectors": _on_a_cpu("vectors", "minikernel.ops.cpu.rungs", "cpu/vectors.cpp"),
    "threads": _on_a_cpu("threads", "minikernel.ops.cpu.rungs", "cpu/threads.cpp"),
    "streaming": _on_a_cpu("streaming", "minikernel.ops.cpu.rungs", "cpu/streaming.cpp"),
}
# so that a rung is found by its name wherever the registry's own are
SPECS.update(TABLE)

# language -> its rungs; each does something that the one before it did not
LADDERS = {
    language: tuple(name for name, spec in TABLE.items() if spec.source.suffix == ending and name != REFERENCE)
    for ending, language in LANGUAGES.items()
}
