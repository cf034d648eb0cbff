"""Digests of what a result was made with, and what makes it stale."""

from pathlib import Path

import pytest

from minilab.config.check import check_schema, read_schema
from minilab.device import cpu_device
from minilab.files import write_json
from minilab.records.provenance import concluded, provenance, stale_reasons
from minilab.records.restore import Today, flattened, reasons_by_kernel
from minilab.records.sources.closure import closure
from minilab.records.sources.digests import digest_of_code
from minilab.records.words import worded

ROOT = Path(__file__).parents[3]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("kernel.cu").write_text("one")
    return Path("kernel.cu")


def test_provenance_names_device_versions_and_digests(source: Path):
    made = provenance([source], {"launches": 100})
    assert made["device"] == cpu_device()
    assert {"python", "torch", "numpy"} <= made["versions"].keys()
    assert list(made["sources"]) == ["kernel.cu"]
    assert stale_reasons(made, {"launches": 100}) == []


def test_a_variable_that_changes_machine_code_is_named_and_the_settled_one_is_not(
    source: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    assert "variables" not in provenance([source], {})
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("PTXAS_OPTIONS", "-O1")
    made = provenance([source], {})
    assert made["variables"] == {"TRITON_DEFAULT_FP_FUSION": "0", "PTXAS_OPTIONS": "-O1"}
    check_schema(made, read_schema(ROOT / "schemas/provenance.schema.yaml"), "provenance")
    monkeypatch.delenv("PTXAS_OPTIONS")
    assert concluded([source], made)["variables"] == made["variables"]


def test_what_makes_a_record_stale(source: Path):
    made = provenance([source], {"launches": 100, "seed": 1})
    assert stale_reasons(made, {"launches": 200, "seed": 1}) == [{"code": "parameter_changed", "name": "launches"}]
    assert stale_reasons(made, {"launches": 100}) == [{"code": "parameter_changed", "name": "seed"}]
    source.write_text("one // a comment")
    assert stale_reasons(made) == []
    source.write_text("two")
    assert stale_reasons(made) == [{"code": "source_changed", "path": "kernel.cu"}]
    source.unlink()
    assert stale_reasons(made) == [{"code": "source_gone", "path": "kernel.cu"}]


def test_a_source_that_joined_what_it_depends_on_makes_it_stale(source: Path):
    made = provenance([source], {})
    today = {**made["sources"], "header.cuh": "0"}
    assert stale_reasons(made, None, today) == [{"code": "source_new", "path": "header.cuh"}]


def test_what_follows_from_a_measurement_is_of_its_day_and_machine_and_of_its_own_sources(source: Path):
    write_json("results/measured.json", {"provenance": {}, "rows": [1]})
    made = {**provenance([], {"a": 1}, "h200"), "date": "2001-01-01T00:00:00+00:00", "versions": {"torch": "1"}}
    found = concluded([source], made, "results/measured.json")
    assert (found["device"], found["date"], found["versions"]) == ("h200", made["date"], {"torch": "1"})
    assert list(found["sources"]) == [str(source)]
    assert list(found["inputs"]) == ["results/measured.json"]
    assert found["params"] == {}


FORWARDS = "HOMES = {%s}\ndef __getattr__(name): ...\n"


def test_a_public_name_makes_stale_only_what_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    package = Path("src/lazy/__init__.py")
    package.parent.mkdir(parents=True)
    for name, text in {"first": "def one(): ...", "second": "def one(): ...", "third": "def three(): ..."}.items():
        package.with_name(f"{name}.py").write_text(text)
    Path("script.py").write_text("from lazy import one\n")

    def reasons(homes: str) -> list[dict]:
        package.write_text(FORWARDS % homes)
        return stale_reasons(made, None, {path: digest_of_code(path) for path in closure("script.py")})

    package.write_text(FORWARDS % '"one": "lazy.first"')
    made = provenance([*closure("script.py"), package], {})  # a record of when a package's own file counted
    assert reasons('"one": "lazy.first"') == []
    assert reasons('"one": "lazy.first", "three": "lazy.third"') == []
    assert stale_reasons(made) == []
    assert reasons('"one": "lazy.second"') == [
        {"code": "source_gone", "path": "src/lazy/first.py"},
        {"code": "source_new", "path": "src/lazy/second.py"},
    ]
    package.write_text("def one(): ...\n")
    assert stale_reasons(made) == [{"code": "source_changed", "path": str(package)}]


def test_another_input_makes_it_stale_wherever_that_now_lies(source: Path):
    write_json("results/24/h200/autotune.json", {"choices": [1], "provenance": {}})
    made = provenance([], {}, "h200", ["results/24/h200/autotune.json"])
    differs = [{"code": "input_differs", "path": "results/24/h200/autotune.json"}]
    assert stale_reasons(made) == []
    write_json("results/24/h200/autotune.json", {"choices": [2], "provenance": {}})
    assert stale_reasons(made) == differs
    assert stale_reasons(made, results=False) == []
    write_json("recorded/h200/24/autotune.json", {"choices": [1], "provenance": {"date": "another"}})
    assert stale_reasons(made, record="recorded/h200") == []
    write_json("recorded/h200/24/autotune.json", {"choices": [3], "provenance": {}})
    assert stale_reasons(made, record="recorded/h200", results=False) == differs
    Path("recorded/h200/24/autotune.json").write_text("{")
    assert stale_reasons(made, record="recorded/h200", results=False) == differs


def reasons_of(bench: dict, today: Today) -> list[str]:
    return [worded(reason) for reason in flattened(reasons_by_kernel(bench, today))]


def test_bench_goes_stale_kernel_by_kernel(source: Path):
    made = provenance(["kernel.cu"], {"launches": 100})
    bench = {"provenance": made, "kernels": {"mine": made, "F.softmax": {**made, "sources": {}}}}
    params = {"launches": 100}
    today = {"mine": (params, made["sources"]), "F.softmax": (params, {})}
    assert reasons_of(bench, today) == []
    assert reasons_of(bench, {**today, "mine": (params, {"kernel.cu": "0"})}) == ["mine: kernel.cu has changed"]
    assert reasons_of(bench, {**today, "newer": ({}, {}), "another": ({}, {})}) == []


def test_rows_measured_in_one_process_go_stale_together(source: Path):
    artefact = {"provenance": provenance([source], {})}
    found = reasons_by_kernel(artefact, {"": ({}, {"kernel.cu": "0"})})
    assert found == {"": [{"code": "source_changed", "path": "kernel.cu"}]}
