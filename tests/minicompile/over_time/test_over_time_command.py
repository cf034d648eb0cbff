"""`minicompile over-time` with the torch that is here under two of its names: a failure of one leaves the other."""

import json
import re
from importlib.metadata import version
from pathlib import Path

from minicompile.command import main
from minilab.config.check import check_schema, read_schema

SCHEMA = Path(__file__).parents[3] / "schemas/over_time.schema.yaml"
MODEL = """
from pathlib import Path
import torch

def make():
    told = Path(__file__).with_suffix(".told")
    if not told.exists():
        told.touch()
        raise RuntimeError("not under this version")
    return torch.nn.Softmax(-1), (torch.ones(4, 300),)
"""


def test_a_version_that_fails_is_told_and_the_other_has_its_page(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL)
    exact = version("torch").partition("+")[0]
    minor = exact.rpartition(".")[0]
    given = ["over-time", "mine.py:make", "--torch", f"{minor},{exact}", "--target", "simulated", "--out", "out"]
    assert main(given) == 1
    told = capfd.readouterr()
    assert f"torch {minor}: " in told.err
    assert "not under this version" in told.err
    found = json.loads((tmp_path / "out/over_time.json").read_text())
    check_schema(found, read_schema(SCHEMA), "over_time.json")
    failed, made = found["versions"]
    assert "not under this version" in failed["failed"]
    assert made["counts"]["kernels"] == 1
    assert made["counts"]["ptx_lines"] > 50
    assert (tmp_path / "out" / made["explorer"]).is_file()
    page = (tmp_path / "out/over_time.html").read_text()
    assert "not under this version" in page
    assert re.search(rf"<th scope=\"col\">{re.escape(made['torch'])}</th>", page)
    assert str(tmp_path) not in page
    assert "http" not in page.replace("http-equiv", "")


def test_where_no_version_has_a_capture_one_sentence_says_why_and_there_is_no_page(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["over-time", "mine.py:make", "--torch", "9.8,9.9", "--environments", "/dev/null/no"]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("Error: no environment can be kept in /dev/null/no: ")
    assert list(tmp_path.rglob("over_time.*")) == []
