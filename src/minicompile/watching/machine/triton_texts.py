"""The Triton kernels of a compile: what was proposed and timed for each, and what Triton compiles it to."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minicompile.watching.choosing.heuristics import KernelTimes, proposed
from minicompile.watching.machine.resource_usage import resource_usages
from minicompile.watching.machine.triton import CompiledKernel, TritonKernels
from minicompile.watching.output_code import code_lines, triton_sources
from minikernel.proof.cubin import ask_cuda_tool
from minilab import LabError

DEBUG_SECTIONS = re.compile(r"^\s*\.section\b.*", re.M | re.S)  # at the end of PTX; names and folders, as bytes


def machine_code(
    codes: Sequence[str], target: str, times: KernelTimes, sass: bool
) -> list[tuple[dict[str, Any], LabError | None]]:
    """The Triton kernels of each graph.

    Args:
        codes: of the graphs.
        target: `cuda` or `simulated`.
        times: what a clock measured at the kernels' first calls.
        sass: disassemble the machine code too; starting nvdisasm takes half a second for each kernel.

    Returns:
        For each graph its kernels by name: `heuristic`, what was `proposed`, or None; `times`, [configuration,
        milliseconds] pairs; `best`, the configuration that a clock chose, or None; `compiled`, the texts of each stage
        and what the kernel uses, or None. And why Triton compiled none of them, where it could not.
    """
    with TritonKernels(target) as kernels:
        return [_of_graph(triton_sources(code_lines(code)), kernels, times, sass) for code in codes]


def _of_graph(
    sources: dict[str, tuple[str, str]], kernels: TritonKernels, times: KernelTimes, sass: bool
) -> tuple[dict[str, Any], LabError | None]:
    compiled: dict[str, CompiledKernel] = {}
    failed: LabError | None = None
    try:
        compiled = kernels.compiled(sources, times.best)
    except LabError as error:
        failed = error
    usages = dict(zip(compiled, _usages([*compiled.values()]), strict=True))
    heuristics = proposed(sources, kernels)
    found = {
        name: {
            "heuristic": heuristics.get(name),
            "times": [list(one) for one in times.of(text)],
            "best": times.best(text),
            "compiled": _texts(compiled[name], usages[name], kernels, sass) if name in compiled else None,
        }
        for name, (_, text) in sources.items()
    }
    return found, failed


def _usages(compiled: list[CompiledKernel]) -> list[dict | None]:
    """Registers and stack of each kernel, which are all for one architecture."""
    cubins = [made.cubin for made in compiled]
    return resource_usages(cubins, int(re.sub(r"\D", "", compiled[0].architecture))) if cubins else []


def _texts(made: CompiledKernel, used: dict | None, kernels: TritonKernels, sass: bool) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(made).items() if name != "cubin"}
    usage = {name: used[name] if used else None for name in ("registers", "stack_bytes")}
    stages: dict[str, str | None] = {name: kernels.without_folder(facts[name]) for name in ("ttir", "ttgir", "llir")}
    stages["ptx"] = kernels.without_folder(DEBUG_SECTIONS.sub("", facts["ptx"]))
    listing = _disassembled(made.cubin) if sass else None
    stages["sass"] = listing and kernels.without_folder(listing)
    return {**facts, **usage, **stages}


def _disassembled(cubin: bytes) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return ask_cuda_tool("nvdisasm", "--print-line-info-inline", "--print-code", str(path))
