"""A watched compile's record: packed, brought back whole, concluded from, and marked when what watched has changed."""

import json
from pathlib import Path

import pytest
import yaml
from forks import script

from minicompile.explain.wording import Wording
from minilab.files import read_json
from minilab.records.artefact import artefact
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact

ROOT = Path(__file__).parents[2]
TEXTS = ("fx_graph.py", "post_grad.py", "ir_pre_fusion.txt", "ir_post_fusion.txt", "output_code.py", "kernel.py")


FOLDER = Path("results/25/tiny_head/h200")
PATH, CAPTURE = str(FOLDER / "watched.json"), FOLDER / "capture.json"
WATCHED = artefact("watched")
AT = {"model": "tiny_head", "device": "h200"}


def params(**changes: object) -> dict:
    """What the lab's own configuration watches the model with, changed."""
    return WATCHED.params(yaml.safe_load((ROOT / "config.yaml").read_text()), AT) | changes


@pytest.fixture
def published(checkout: Path) -> Path:
    """A watched compile as a GPU's, published by `record`."""
    made = read_json(next((ROOT / "results/recorded").glob("*/25/tiny_head/watched.json.xz")))
    sources = WATCHED.sources(yaml.safe_load((ROOT / "config.yaml").read_text()), AT)
    made["provenance"] = provenance(sources, params(), "h200")
    write_artefact(checkout / PATH, made)
    devices = json.dumps({"h200": [[PATH], {}]})
    done = script("record", f"params.devices={devices}", "params.recorded=recorded", "params.sign=null", cwd=checkout)
    assert done.returncode == 0, done.stderr
    return checkout / "recorded/h200/25/tiny_head/watched.json.xz"


def restored(record: Path, folder: Path, today: dict) -> tuple[dict, dict]:
    """What `restore` brings back in place of what was published, and the capture of it, its texts beside it."""
    (folder / PATH).unlink()
    done = script(
        "restore", f"input.record={record}", f"input.sums={record.parents[2]}/SHA256SUMS", "params.stale=mark",
        f"params.measuring={json.dumps({'': today})}", f"output.artefact={PATH}", "config=config.yaml", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = script(
        "capture", f"input.watched={PATH}", "input.lib=[]", "input.schema=schemas/capture.schema.yaml",
        f"output.capture={CAPTURE}", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = {Path(name).stem: FOLDER / name for name in TEXTS}
    given = [f"input.capture={CAPTURE}", *(f"output.{name}={path}" for name, path in outputs.items())]
    done = script("plain_files", *given, cwd=folder)
    assert done.returncode == 0, done.stderr
    return read_json(folder / PATH), read_json(folder / CAPTURE)


def test_a_record_is_much_smaller_and_brings_all_that_was_watched_back(published: Path, checkout: Path):
    before = read_json(checkout / PATH)
    assert 5 * published.stat().st_size < (checkout / PATH).stat().st_size
    after, capture = restored(published, checkout, params())
    assert after["restored"]["stale"] is False
    assert Wording().label(capture).startswith("Triton for NVIDIA H200, captured on 20")
    assert {key: after[key] for key in before.keys() - {"provenance"}} == {
        key: value for key, value in before.items() if key != "provenance"
    }
    for what in ("date", "hardware", "versions", "device"):
        assert capture["provenance"][what] == before["provenance"][what]
    code = next(pane for pane in capture["panes"] if pane["kind"] == "code")
    folder = checkout / FOLDER
    assert (folder / "output_code.py").read_text() == "\n".join(code["lines"]).rstrip() + "\n"
    assert all((folder / name).stat().st_size for name in TEXTS)


def test_a_capture_of_other_inputs_says_so_wherever_its_label_stands(published: Path, checkout: Path):
    _, capture = restored(published, checkout, params(shape=[4, 16]))
    assert capture["restored"]["reasons"] == [{"code": "parameter_changed", "name": "shape"}]
    assert Wording().label(capture).endswith("stale")
    assert "stale" in (checkout / FOLDER / "kernel.py").read_text().splitlines()[0]
