"""The scripts of the survey alone, by hand, from plain arguments."""

import json
import sys
from pathlib import Path

import pytest
from forks import script

from minilab.device import devices_here
from minilab.records.store import write_artefact

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/minicompile"))

from distributed_artefact import artefact  # noqa: E402

MODEL = {"n_layer": 4, "n_head": 4, "n_embd": 64, "block_size": 128}


def test_survey_writes_the_page_and_the_picture(tmp_path: Path):
    data, vocabulary = tmp_path / "distributed.json", tmp_path / "vocab.json"
    write_artefact(data, artefact())
    write_artefact(vocabulary, {"tokens": [f"w{i}" for i in range(600)], "provenance": {}})
    page, picture = tmp_path / "DISTRIBUTED.md", tmp_path / "distributed.png"
    done = script(
        "survey", f"input.data={json.dumps([str(data)])}", f"input.vocabulary={vocabulary}",
        f"params.model={json.dumps(MODEL)}", "params.language=es", f"output.survey={page}", f"output.picture={picture}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "285\u202f656 parámetros de MiniGPT" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif("h200" in devices_here(), reason="needs a machine without an H200")
def test_distributed_refuses_hardware_that_is_not_here_in_one_sentence(tmp_path: Path):
    report = tmp_path / "distributed.json"
    done = script(
        "distributed", "wildcards.device=h200", "params.measuring={ranks: [2]}", "input.sources=[]",
        f"output.report={report}",
    )  # fmt: skip
    assert done.returncode == 1
    assert "Error: device h200 is not in this machine" in done.stderr
    assert "Traceback" not in done.stderr
    assert not report.exists()
