"""The scripts annotate and diff_compiles, run by hand as their rules run them."""

import gzip
import json
from pathlib import Path

import pytest
from forks import script
from jsonschema import Draft202012Validator

from minilab.config.check import read_schema
from minilab.records.store import write_artefact

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests/minicompile/data"


@pytest.fixture
def captures(tmp_path) -> dict[str, Path]:
    """Captures of one model for two targets, unpacked."""
    paths = {target: tmp_path / f"{target}.json" for target in ("cpu", "simulated")}
    for target, path in paths.items():
        capture = json.loads(gzip.decompress((CAPTURES / f"tiny_head_{target}.json.gz").read_bytes()))
        write_artefact(path, {"provenance": {}} | capture)
    return paths


def test_annotate_writes_the_walkthrough_and_leaves_the_notes_alone(tmp_path, captures):
    notes, written = tmp_path / "notes.md", tmp_path / "KERNEL_ANNOTATION.md"
    notes.write_text("# What I saw\n\nA scratch row.\n")
    before = notes.stat().st_mtime_ns
    arguments = [f"input.capture={captures['cpu']}", f"output.annotation={written}"]
    assert script("annotate", "params.language=en", *arguments).returncode == 0
    assert "## Notes" not in written.read_text()
    assert script("annotate", "params.language=en", *arguments, f"input.notes=[{notes}]").returncode == 0
    assert written.read_text().endswith(notes.read_text())
    assert (notes.read_text(), notes.stat().st_mtime_ns) == ("# What I saw\n\nA scratch row.\n", before)


def test_diff_compiles_writes_both_files(tmp_path, captures):
    data, text = tmp_path / "diff.json", tmp_path / "diff.md"
    inputs = [f"input.a={captures['cpu']}", f"input.b={captures['simulated']}"]
    done = script("diff_compiles", "params.language=es", *inputs, f"output.data={data}", f"output.text={text}")
    assert done.returncode == 0, done.stderr
    found = json.loads(data.read_text())
    Draft202012Validator(read_schema(ROOT / "schemas/diff_compiles.schema.yaml")).validate(found)
    assert found["graphs"][0]["vanished"]
    assert "### Desaparecidos de a" in text.read_text()
