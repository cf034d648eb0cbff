"""A capture's record: packed, brought back whole, with its texts beside it, and marked when sources have changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forks import script

from minicompile.explain.wording import Wording
from minilab import LabError
from minilab.files import pack_json, read_json
from minilab.records.provenance import provenance

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/minicompile"))

from annotation_models import load  # noqa: E402

PARAMS = {"shape": [2, 16]}
TEXTS = ("fx_graph.py", "post_grad.py", "ir_pre_fusion.txt", "ir_post_fusion.txt", "output_code.py", "kernel.py")


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A capture as a GPU's, published by `record`."""
    made = load("tiny_head", "simulated")
    made["target"] = {"kind": "cuda", "device": "h200", "gpu": "NVIDIA H200", "simulated": False}
    made["provenance"] = provenance([ROOT / "src/minicompile/models.py"], PARAMS)
    path = tmp_path / "results/25/tiny_head/h200/capture.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(made))
    done = script(
        "record", f"input.artefacts=[{path}]", "input.pictures=[]", "params.devices=[h200]",
        f"params.recorded={tmp_path}/recorded",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "recorded/h200/25/tiny_head/capture.json.xz"


def restored(record: Path, folder: Path, today: dict) -> subprocess.CompletedProcess:
    outputs = {Path(name).stem: folder / name for name in (*TEXTS, "capture.json")}
    return script(
        "restore_capture", f"input.record={record}", "input.schema=schemas/capture.schema.yaml",
        f"params.today={json.dumps(today)}", "params.stale=mark",
        *(f"output.{name}={path}" for name, path in outputs.items()),
    )  # fmt: skip


def test_a_record_is_much_smaller_and_brings_the_whole_capture_back(published: Path, tmp_path: Path):
    original = tmp_path / "results/25/tiny_head/h200/capture.json"
    assert 5 * published.stat().st_size < original.stat().st_size
    done = restored(published, tmp_path / "back", PARAMS)
    assert done.returncode == 0, done.stderr
    before, after = read_json(original), read_json(tmp_path / "back/capture.json")
    assert after["restored"]["stale"] is False
    assert Wording().label(after).startswith(Wording().label(before) + ", captured on 20")
    assert {key: after[key] for key in before} == before
    code = next(pane for pane in after["panes"] if pane["kind"] == "code")
    assert (tmp_path / "back/output_code.py").read_text() == "\n".join(code["lines"]).rstrip() + "\n"
    assert all((tmp_path / "back" / name).stat().st_size for name in TEXTS)


def test_a_capture_of_other_inputs_says_so_wherever_its_label_stands(published: Path, tmp_path: Path):
    restored(published, tmp_path / "back", {"shape": [4, 16]})
    after = read_json(tmp_path / "back/capture.json")
    assert after["restored"]["reasons"] == ["parameter shape has changed"]
    assert Wording().label(after).endswith("stale")
    assert "stale" in (tmp_path / "back/kernel.py").read_text().splitlines()[0]


def test_a_broken_record_is_refused_in_one_sentence(tmp_path: Path):
    broken = tmp_path / "capture.json.xz"
    broken.write_bytes(b"not xz")
    with pytest.raises(LabError, match="is not readable JSON"):
        read_json(broken)


def test_what_was_packed_is_read_as_it_was(tmp_path: Path):
    source, packed = tmp_path / "a.json", tmp_path / "a.json.xz"
    source.write_text(json.dumps({"ö": [1, {"b": None}]}, indent=4))
    pack_json(source, packed)
    assert read_json(packed) == read_json(source)
