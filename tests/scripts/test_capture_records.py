"""A capture's record: packed, brought back whole, with its texts beside it, and marked when sources have changed."""

import json
import sys
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
sys.path.append(str(ROOT / "tests/minicompile"))

from annotation_models import load  # noqa: E402

TEXTS = ("fx_graph.py", "post_grad.py", "ir_pre_fusion.txt", "ir_post_fusion.txt", "output_code.py", "kernel.py")


PATH = "results/25/tiny_head/h200/capture.json"
CAPTURE = artefact("capture")
AT = {"model": "tiny_head", "device": "h200"}


def params(**changes: object) -> dict:
    """What the lab's own configuration captures the model with, changed."""
    return CAPTURE.params(yaml.safe_load((ROOT / "config.yaml").read_text()), AT) | changes


@pytest.fixture
def published(checkout: Path) -> Path:
    """A capture as a GPU's, published by `record`."""
    made = load("tiny_head", "simulated")
    made["target"] = {"kind": "cuda", "device": "h200", "gpu": "NVIDIA H200", "simulated": False}
    sources = CAPTURE.sources(yaml.safe_load((ROOT / "config.yaml").read_text()), AT)
    made["provenance"] = provenance(sources, params(), "h200")
    write_artefact(checkout / PATH, made)
    devices = json.dumps({"h200": [[PATH], {}]})
    done = script("record", f"params.devices={devices}", "params.recorded=recorded", "params.sign=null", cwd=checkout)
    assert done.returncode == 0, done.stderr
    return checkout / "recorded/h200/25/tiny_head/capture.json.xz"


def restored(record: Path, folder: Path, today: dict) -> dict:
    """The capture that `restore` brings back in place of the published one, its texts beside it."""
    (folder / PATH).unlink()
    done = script(
        "restore", f"input.record={record}", f"input.sums={record.parents[2]}/SHA256SUMS", "params.stale=mark",
        f"params.measuring={json.dumps({'': today})}", f"output.artefact={PATH}", "config=config.yaml", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = {Path(name).stem: Path(PATH).with_name(name) for name in TEXTS}
    done = script(
        "plain_files", f"input.capture={PATH}", *(f"output.{name}={path}" for name, path in outputs.items()), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return read_json(folder / PATH)


def test_a_record_is_much_smaller_and_brings_the_whole_capture_back(published: Path, checkout: Path):
    before = read_json(checkout / PATH)
    assert 5 * published.stat().st_size < (checkout / PATH).stat().st_size
    after = restored(published, checkout, params())
    assert after["restored"]["stale"] is False
    assert Wording().label(after).startswith(Wording().label(before) + ", captured on 20")
    made = {key: value for key, value in after["provenance"].items() if key != "content_sha256"}
    assert made == {key: value for key, value in before["provenance"].items() if key != "content_sha256"}
    assert {key: after[key] for key in before.keys() - {"provenance"}} == {
        key: value for key, value in before.items() if key != "provenance"
    }
    code = next(pane for pane in after["panes"] if pane["kind"] == "code")
    folder = (checkout / PATH).parent
    assert (folder / "output_code.py").read_text() == "\n".join(code["lines"]).rstrip() + "\n"
    assert all((folder / name).stat().st_size for name in TEXTS)


def test_a_capture_of_other_inputs_says_so_wherever_its_label_stands(published: Path, checkout: Path):
    after = restored(published, checkout, params(shape=[4, 16]))
    assert after["restored"]["reasons"] == [{"code": "parameter_changed", "name": "shape"}]
    assert Wording().label(after).endswith("stale")
    assert "stale" in (checkout / PATH).with_name("kernel.py").read_text().splitlines()[0]
