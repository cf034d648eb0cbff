"""Each input of a job is looked at before the job opens it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from minilab import LabError
from minilab.records.inputs import look_at_inputs
from minilab.records.store import write_artefact
from minilab.script import run

VOCABULARY = "results/17/vocab.json"


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_artefact(VOCABULARY, {"tokens": ["a"], "provenance": {"device": "cpu"}})
    return tmp_path


def test_what_is_right_passes_and_other_files_are_left_alone(lab: Path):
    (lab / "notes.json").write_text("[]")
    look_at_inputs([VOCABULARY, "notes.json", "corpus.txt", ["scripts/a.py"]])
    (lab / "weights.npz").write_bytes(b"a user's own")
    look_at_inputs(SimpleNamespace(vocabulary=VOCABULARY, sources=["a.py", "weights.npz"]))


@pytest.mark.parametrize(
    "content", ["{}", "null", "[]", '{"tokens": ["b"], "provenance": {"content_sha256": "a"}}', "{"]
)
def test_an_artefact_that_is_none_or_was_edited(lab: Path, content: str):
    (lab / VOCABULARY).write_text(content)
    with pytest.raises(LabError, match="build it again with"):
        look_at_inputs([VOCABULARY])


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_archives_are_looked_at_before_the_script_begins(lab: Path, name: str, capsys: pytest.CaptureFixture):
    (lab / name).write_bytes(b"PK\x03\x04" + bytes(100))
    begun = []
    with pytest.raises(SystemExit):
        run(begun.append, SimpleNamespace(input=[name], log=[], resources={}))
    assert not begun
    assert f"Error: {name} is refused as a " in capsys.readouterr().err
