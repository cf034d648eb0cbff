"""Write the parts of docs/torch_compile.md and its pages that are facts of the code, between markers.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; `refresh` rewrites it. What a
compile's failures say, and what `TORCH_LOGS` prints, comes from running the installed torch; what the failures say in
other releases is kept in data/compile_failures.yaml.
"""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import torch
import yaml
from packaging.version import Version
from torch import nn

from minicompile import validate
from minicompile.safe.call import ELEMENTS, GIVEN
from minicompile.safe.compile_cases import lying
from minicompile.safe.compile_config import MODES, BucketConfig, CompileConfig
from minicompile.safe.compile_record import CompileReport, SmoketestOutcome, compile_report
from minicompile.safe.safe_compile import maybe_compile
from minicompile.safe.smoketest.numerics import TOLERANCES
from minicompile.torch_private import dynamo as dynamo_internals
from minilab import LabError
from minilab.files import read_json, write_text

PART = re.compile(r"<!-- generated: (\S+) -->\n.*?<!-- end -->", re.S)
LOGS = ("dynamic", "perf_hints", "recompiles", "graph_breaks", "fusion")
LOGGED_LINES = 6
ON_TORCH = Path(__file__).parent / "data/on_torch.json"
KNOWN_FAILURES = Path(__file__).parent / "data/compile_failures.yaml"
# Two training steps of different lengths and an operation that breaks the graph: enough to make each log speak.
LOGGED_RUN = """
import torch
from minimodel import GrammarMiniGPT, MiniGPTConfig
model = GrammarMiniGPT(MiniGPTConfig(vocab_size=100, n_layer=1, n_head=2, n_embd=16, block_size=64))
model.lm_head.register_forward_hook(lambda *_: torch._dynamo.graph_break())
compiled = torch.compile(model, options={"cpp.vec_isa_ok": True, "cpp.simdlen": 256})
for length in (16, 32):
    compiled(torch.zeros(2, length, dtype=torch.int64)).sum().backward()
"""


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Write a table in Markdown; bars inside cells are escaped."""
    lines: list[tuple[str, ...]] = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def described(cls: type) -> dict[str, str]:
    """Map a class's attributes to their texts in its docstring; `a, b: text` documents two of them."""
    section = re.search(r"\n    Attributes:\n(.*?)(?:\n\n|\Z)", cls.__doc__ or "", re.S)
    if section is None:
        return {}
    entries = re.findall(r"^ {8}(\w[\w, ]*): (.*?)(?=^ {8}\w|\Z)", section[1] + "\n", re.S | re.M)
    return {name.strip(): " ".join(text.split()) for names, text in entries for name in names.split(",")}


def fields(cls: type) -> str:
    """Tabulate the fields of a configuration with default and meaning."""
    texts = described(cls)
    rows = []
    for field in dataclasses.fields(cls):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        rows.append((f"`{field.name}`", f"`{default!r}`", texts.get(field.name, "")))
    return markdown_table(("field", "default", "meaning"), rows)


def report_fields() -> str:
    """Tabulate the fields of `compile_report`, in the words of its docstring."""
    return markdown_table(("field", "meaning"), [(f"`{n}`", text) for n, text in described(CompileReport).items()])


def call() -> str:
    """Quote what a call of a model is: what it is given, and each element of what it leaves."""
    given = " ".join(GIVEN.replace("(`minicompile.state.batches.copied_batch`)", "").split()).replace(" .", ".")
    given = fill(given, 128, break_long_words=False, break_on_hyphens=False)
    return f"{given}\n\n{markdown_table(('element', 'what is compared'), [(f'`{n}`', w) for n, w in ELEMENTS.items()])}"


def modes() -> str:
    """Tabulate the presets of the installed torch's Inductor."""
    rows = []
    for mode in MODES:
        options = ", ".join(f"`{key}={value}`" for key, value in dynamo_internals.mode_options(mode).items())
        rows.append((f"`{mode}`", options or "nothing"))
    return markdown_table(("mode", f"what it sets (torch {release()})"), rows)


def tolerances() -> str:
    """Tabulate the smoketest's tolerances by arithmetic."""
    return markdown_table(("arithmetic", "tolerance"), [(name, f"{value:g}") for name, value in TOLERANCES.items()])


def stages() -> str:
    """Quote what the docstrings of the report and of the smoketest say of `stage`."""
    said = f"`stage` is {described(CompileReport)['stage']} The smoketest's: {described(SmoketestOutcome)['stage']}"
    return fill(said, 120, break_long_words=False, break_on_hyphens=False)


def _fail(model: nn.Module, **fields: Any) -> nn.Module:
    return maybe_compile(model, CompileConfig(enabled=True, **fields), validate.quiet, validate.ids())


def _no_compiler() -> nn.Module:
    with dynamo_internals.without_cpp_compiler():
        return _fail(validate.Network())


class _NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("this operation has no backward pass")


def _untraceable(x: torch.Tensor) -> torch.Tensor:
    """Works eager; no compiler can trace a value that goes through a Python string."""
    return x * float(str(x.detach().mean().item()))


def _raising(graph_module, example_inputs):
    raise NotImplementedError("not on this machine")


def _counting() -> nn.Module:
    model: Any = validate.Network()

    def grow(x: torch.Tensor) -> torch.Tensor:
        model.calls = getattr(model, "calls", 0) + 1
        return x * model.calls

    model.operation = grow
    return _fail(model, backend="eager", smoketest_steps=3)


def _limit_under_fullgraph() -> nn.Module:
    model = _fail(validate.Network(), backend="eager", dynamic=False, fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=1):
        for length in (4, 5):
            model(validate.ids(length))
    return model


FAILURES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "no backend of that name": (
        lambda: _fail(validate.Network(), backend="no_such_backend"),
        "write one of `torch.compiler.list_backends()`",
    ),
    "no Inductor option of that name": (
        lambda: _fail(validate.Network(), options={"no_such": 1}),
        "look it up in `torch._inductor.list_options()`",
    ),
    "an operation that cannot be traced, under `fullgraph`": (
        lambda: _fail(validate.Network(_untraceable), fullgraph=True),
        "leave `fullgraph` off, or block the function",
    ),
    "no C++ compiler": (_no_compiler, "install one, or set `CXX`"),
    "a backend that raises": (
        lambda: _fail(validate.Network(), backend=_raising),
        "read the stack; try `aot_eager` to tell Dynamo's faults from Inductor's",
    ),
    "a backward pass that raises": (
        lambda: _fail(validate.Network(_NoBackward.apply)),
        "the model is at fault: it fails in eager too",
    ),
    "wrong numbers": (
        lambda: _fail(validate.Network(), backend=lying),
        "report it to the backend's makers; raise `tolerance` only if the difference is rounding",
    ),
    "a recompile on the same batch": (_counting, "make the value that changes a tensor, or block what changes it"),
    "the recompile limit, under `fullgraph`": (_limit_under_fullgraph, "pad to buckets, or mark the dimension dynamic"),
}


def observed_failures() -> dict[str, dict[str, str]]:
    """Make each failure happen under the installed torch: its name -> `stage`, `exception` and `message`."""
    found = {}
    for name, (fail, _) in FAILURES.items():
        torch.compiler.reset()
        torch.manual_seed(0)
        report = compile_report(fail())
        message = without_paths(report.reason or "").removeprefix(f"{report.exception}: ")
        found[name] = {"stage": report.stage, "exception": str(report.exception), "message": message[:120]}
    torch.compiler.reset()
    return found


def known_failures() -> dict[str, dict[str, dict[str, str]]]:
    """Read what `observed_failures` returned under each torch release."""
    return yaml.safe_load(KNOWN_FAILURES.read_text())


def remember_failures() -> None:
    """Add what the installed torch says of each failure to what is known of other releases."""
    known = {**known_failures(), release(): observed_failures()}
    ordered = dict(sorted(known.items(), key=lambda item: [int(part) for part in item[0].split(".")]))
    head = KNOWN_FAILURES.read_text().split("\n")[0]
    write_text(KNOWN_FAILURES, head + "\n" + yaml.safe_dump(ordered, sort_keys=False, width=1000, allow_unicode=True))


def failures() -> str:
    """Tabulate what goes wrong, what each torch release says then, and what to do; releases that agree share a row."""
    rows = []
    for name, (_, remedy) in FAILURES.items():
        said: dict[tuple[str, str, str], list[str]] = {}
        for tried, found in known_failures().items():
            if name in found:
                of_release = found[name]
                key = (of_release["stage"], of_release["exception"], of_release["message"])
                said.setdefault(key, []).append(tried)
        for (stage, exception, message), releases in said.items():
            rows.append((name, f"`{stage}`", f"`{exception}`", message, ", ".join(releases), remedy))
    return markdown_table(("what happens", "stage", "exception", "message", "torch", "what to do"), rows)


def without_paths(text: str) -> str:
    """Rewrite a message so that it is the same on every machine: file names without folders, no addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"[\w./-]*/(?=[\w.]+\.py)", "…/", text))


def logged() -> dict[str, list[str]]:
    """Collect what each flag of `TORCH_LOGS` prints on a small MiniGPT, without time, process, path and repeats."""
    environment = {**os.environ, "TORCH_LOGS": ",".join(LOGS), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    run = subprocess.run([sys.executable, "-c", LOGGED_RUN], env=environment, capture_output=True, text=True)
    if run.returncode:
        raise LabError(f"the run under TORCH_LOGS failed; its last words are {run.stderr[-300:]!r}.")
    found: dict[str, list[str]] = {flag: [] for flag in LOGS}
    for line in run.stderr.splitlines():
        match = re.match(r"[VIWE]\d{4} \S+ \d+ \S+:\d+\](?: \[\d\S*\])?(?: \[__(\w+)\])? ?(.*)", line)
        # Lines of `dynamic` are those of a module and carry no tag.
        flag = match and (match[1] or ("dynamic" if "symbolic_shapes" in line else None))
        if match and flag in found:
            text = without_paths(match[2]).rstrip()[:120]
            if text and text not in found[flag]:
                found[flag].append(text)
    return found


def logs() -> str:
    """Write a section for each flag: how many different lines, and the first of them."""
    parts = []
    for flag, lines in logged().items():
        sample = "\n".join(lines[:LOGGED_LINES]) if lines else "(nothing on this machine)"
        parts.append(f"`{flag}`: {len(lines)} different lines on torch {release()}.\n\n```text\n{sample}\n```")
    return "\n\n".join(parts)


def versions() -> str:
    """Write what came of the suites on each torch that tests/on_torch.sh has run them on, and name what failed."""
    known = read_json(ON_TORCH)
    columns = sorted(known, key=Version)
    suites = sorted({suite for ran in known.values() for suite in ran})
    rows = [(suite, *(_came_of(known[torch].get(suite)) for torch in columns)) for suite in suites]
    failed = [
        f"- torch {torch}, {suite}:\n" + ",\n".join(f"  `{name}`" for name in known[torch][suite]["failed"])
        for torch in columns
        for suite in sorted(known[torch])
        if known[torch][suite]["failed"]
    ]
    return "\n\n".join(
        [markdown_table(("suite", *columns), rows), *(["What failed:", "\n".join(failed)] if failed else [])]
    )


def _came_of(run: dict | None) -> str:
    if run is None:
        return "–"
    count = run["passed"] + len(run["failed"])
    told = f"{len(run['failed'])} of {count} failed" if run["failed"] else f"{count} passed"
    return f"{told}, {run['skipped']} skipped, {run['date']}" if run["skipped"] else f"{told}, {run['date']}"


def release() -> str:
    """Return the installed torch's release without its build: `2.13.0`."""
    return torch.__version__.split("+")[0]


PARTS: dict[str, Callable[[], str]] = {
    "call": call,
    "config": lambda: fields(CompileConfig),
    "buckets": lambda: fields(BucketConfig),
    "report": report_fields,
    "stages": stages,
    "tolerances": tolerances,
    "modes": modes,
    "failures": failures,
    "logs": logs,
    "versions": versions,
}


def parts_of(text: str) -> list[str]:
    """List the generated parts of a page, in its order."""
    return PART.findall(text)


def refresh(text: str, parts: dict[str, Callable[[], str]] | None = None) -> str:
    """Return a page with its generated parts written again; those that are not in `parts` stay as they are.

    Raises:
        LabError: the page asks for a part that there is not.
    """
    chosen = PARTS if parts is None else parts
    unknown = sorted(set(parts_of(text)) - {*PARTS, *chosen})
    if unknown:
        raise LabError(f"the page asks for the generated part {unknown[0]!r}; there are {', '.join(PARTS)}.")

    def replace(match: re.Match) -> str:
        name = match[1]
        return f"<!-- generated: {name} -->\n{chosen[name]()}\n<!-- end -->" if name in chosen else match[0]

    return PART.sub(replace, text)
