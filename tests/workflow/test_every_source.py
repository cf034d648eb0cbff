"""Every module that a measurement depends on counts: its edit reruns the measurement and makes the record stale.

What a measurement depends on is computed from imports, so each module of it is tried, one at a time: an edit in meaning
must name the rule and mark the record; an edit of a comment must leave the record as fresh as it was.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from lab import ROOT, Lab, copy_lab

from minilab.device import cpu_device
from minilab.plan import Plan
from minilab.records.artefact import PAGES, TABLE, Artefact
from minilab.records.provenance import stale_reasons
from minilab.records.sources.closure import closure
from minilab.records.sources.digests import digest_of_code

CPU = cpu_device()
ON_A_GPU = ("--config", f"devices={{measure: [h200, {CPU}], recorded: auto}}")
COMMENTS = {".py": "\n# A better comment.\n", ".yaml": "\n# A better comment.\n", ".json": "\n"}
MEANING = {".py": "\nEDITED = 1\n", ".yaml": "\nedited: 1\n", ".json": None}
READ_BY_OTHERS = ("ceilings", "autotune", "watched")  # measurements that others begin with
# What a rule reads beside its code; in the record it counts through what it made, the weights.
READ_TOO = {"src/minimodel/data/lexicon.yaml": {f"results/24/{name}/kernel_swap.json" for name in ("h200", CPU)}}
CPP_COMMENT, CPP_MEANING = "\n// A better comment.\n", "\nint edited;\n"


def config() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def measured() -> list[tuple[Artefact, dict[str, str]]]:
    """Each measurement of a machine with an H200, with its wildcards; a bench is one for each kernel."""
    plan = Plan(config(), ["h200", CPU])
    found = []
    for entry in TABLE:
        if not entry.recorded:
            continue
        for place in plan.places(entry):
            if entry.gpu_only and place["device"] == CPU and entry.name != "watched":
                continue
            kernels = plan.timed_kernels(place["device"]) if entry.name == "bench" else [""]
            found += [(entry, {**place, "kernel": kernel}) for kernel in kernels]
    return found


def output_of(entry: Artefact, place: dict[str, str]) -> str:
    if entry.name == "bench":
        return f"results/24/{place['device']}/bench/{place['kernel']}.json"
    return entry.path(**place)


def made_with(entry: Artefact, place: dict[str, str]) -> set[str]:
    """What the job writes that measures this: on a CPU one job times all kernels."""
    if entry.name == "bench" and place["device"] == CPU:
        return {output_of(*one) for one in measured() if one[0] is entry and one[1]["device"] == CPU}
    return {output_of(entry, place)}


@pytest.fixture(scope="module")
def depends() -> dict[str, set[str]]:
    """File -> the outputs of the jobs that measure what depends on it."""
    found: dict[str, set[str]] = {}
    for entry, place in measured():
        for path in entry.sources(config(), place):
            found.setdefault(path, set()).update(made_with(entry, place))
    return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab on whose machine an H200 counts as being here, and everything as built."""
    lab = copy_lab(tmp_path_factory.mktemp("machine") / "lab")
    lab.pretend_built(*sorted({output_of(*one) for one in measured()}), *ON_A_GPU)
    return lab


def test_an_edit_of_any_module_reruns_the_measurements_that_depend_on_it_and_no_others(
    machine: Lab, depends: dict[str, set[str]]
):
    # All are edited at once, and Snakemake names for each job every edited file that reruns it, where no job before it
    # runs: so those that others read are asked of first. The next test edits one module alone.
    first = {output_of(*one) for one in measured() if one[0].name in READ_BY_OTHERS}
    asked = reasons(machine, depends, first) | reasons(machine, depends, targets() - first)
    missed = {}
    for path, outputs in depends.items():
        named = {output for output, files in asked.items() if path in files}
        if named != outputs | READ_TOO.get(path, set()):
            missed[path] = sorted(outputs ^ named)
    assert missed == {}


def test_an_edit_of_one_module_is_named_alone(machine: Lab, depends: dict[str, set[str]]):
    path = "src/minicompile/safe/smoketest/rewind.py"
    assert reasons(machine, [path], targets()) == {output: {path} for output in depends[path]}


def targets() -> set[str]:
    return {output_of(*one) for one in measured()}


def reasons(lab: Lab, edited: Iterable[str], outputs: set[str]) -> dict[str, set[str]]:
    """Measurement among the outputs -> which of the edited files reruns it, as a dry run says.

    All other results count as built after the edit, so that what they are made by does not run. Files are put back.
    """
    results = [path for path in (lab.root / "results").rglob("*") if path.is_file()]
    others = [(path, path.stat()) for path in results if str(path.relative_to(lab.root)) not in outputs]
    kept = [(file, file.read_text(), file.stat()) for file in (lab.root / path for path in edited)]
    for file, before, _ in kept:
        file.write_text(before + ("\n" if file.suffix != ".json" else " "))
    for path, _ in others:
        os.utime(path)
    try:
        # By content a job runs for all that it reads at once; by the clocks of its inputs Snakemake names each file.
        text = lab.snakemake(*sorted(outputs), *ON_A_GPU, "--dry-run", "--rerun-triggers", "mtime").stdout
    finally:
        for file, before, when in kept:
            file.write_text(before)
            os.utime(file, (when.st_atime, when.st_mtime))
        for path, when in others:
            os.utime(path, (when.st_atime, when.st_mtime))
    found = {}
    for job in re.findall(r"^(?:local)?rule \w+:\n((?:    .*\n)+)", text, re.M):
        made = set(re.search(r"^    output: (.+)", job, re.M)[1].split(", "))
        updated = re.search(r"reason: .*Updated input files: ([^;\n]+)", job)
        if updated:
            found |= dict.fromkeys(made & outputs, set(updated[1].split(", ")) & {*edited})
    return found


def test_the_safety_nets_own_modules_are_among_what_health_depends_on(depends: dict[str, set[str]]):
    health = {output_of(entry, place) for entry, place in measured() if entry.name == "compile_health"}
    names = (
        "smoketest/rewind",
        "smoketest/smoketest",
        "smoketest/time_limit",
        "selection",
        "watch",
        "compile_config",
        "compile_record",
    )
    for name in names:
        assert depends[f"src/minicompile/safe/{name}.py"] >= health, name
    assert depends["src/minicompile/state/batches.py"] >= health
    assert depends["src/minicompile/torch_private/dynamo.py"] >= health


def test_a_contest_depends_on_the_table_that_dispatches(depends: dict[str, set[str]]):
    assert "results/24/h200/contest.json" in depends["src/minikernel/ops/dispatch/tables/h200.json"]


def test_a_kernels_edit_is_no_other_kernels_business(depends: dict[str, set[str]]):
    benches = {path for path in depends["src/minikernel/ops/cuda/naive.cu"] if "/bench/" in path}
    assert benches == {"results/24/h200/bench/naive.json"}
    assert not any("compile_health" in path for path in depends["src/minikernel/ops/cuda/naive.cu"])


CONCLUDING = ("src/minicompile/lowering/", "src/minicompile/explain/")


def test_what_draws_concludes_and_explains_decides_no_measurement(depends: dict[str, set[str]]):
    rooms = ("src/minikernel/report/", "src/minicompile/report/", "src/minilab/", *CONCLUDING)
    assert [path for path in depends if path.startswith(rooms)] == []


def test_a_record_keeps_no_page_of_what_is_concluded():
    assert {page.pattern for page in PAGES for path in closure(page.script) if path.startswith(CONCLUDING)} == set()


@pytest.mark.parametrize("room", CONCLUDING)
def test_an_edit_of_meaning_in_the_modules_that_conclude_leaves_every_record_as_it_was(room: str, machine: Lab):
    def verified() -> list[str]:
        said = machine.snakemake("verify_records")
        return [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("| results/")]

    before = verified()
    modules = {path: path.read_text() for path in (machine.root / room).rglob("*.py") if path.name != "__init__.py"}
    assert len(modules) > 10
    try:
        for path, text in modules.items():
            path.write_text(text + MEANING[".py"])
        assert verified() == before
    finally:
        for path, text in modules.items():
            path.write_text(text)
    assert any("watched.json.xz |" in line for line in before)  # with its reasons, where it is stale


@pytest.mark.parametrize("what", ["meaning", "comment"])
def test_an_edit_of_any_module_makes_the_records_stale_where_it_means_something(
    what: str, machine: Lab, depends: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(machine.root)
    wrong = []
    for path in sorted(depends):
        file = Path(path)
        before = file.read_text()
        made = {"device": "h200", "params": {}, "sources": {path: digest_of_code(file)}}
        edits, cpp = (COMMENTS, CPP_COMMENT) if what == "comment" else (MEANING, CPP_MEANING)
        added = edits.get(file.suffix, cpp)
        file.write_text(before + added if added is not None else f'{{"edited": {before}}}')
        expected = [] if what == "comment" else [{"code": "source_changed", "path": path}]
        if stale_reasons(made) != expected:
            wrong.append(path)
        file.write_text(before)
    assert wrong == []
