"""The survey's words and picture follow the figures, and the names in it are those of the installed torch."""

import copy
import importlib
import re
from pathlib import Path

import matplotlib.image
import pytest
from distributed_artefact import artefact

from minicompile.report.survey import API, survey
from minicompile.report.survey_plot import draw
from minilab.config import check_schema, read_schema
from minimodel.model_config import MiniGPTConfig

MINIGPT = MiniGPTConfig(vocab_size=600, block_size=128)


def text(*artefacts: dict, minigpt: MiniGPTConfig = MINIGPT) -> str:
    """The survey as one line, so that line ends do not matter."""
    return " ".join(survey(list(artefacts), minigpt).split())


def of(artefact: dict, pattern: str) -> dict:
    return next(run for run in artefact["runs"] if run["pattern"] == pattern)


def importable(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ImportError:
        return False


@pytest.mark.parametrize("pattern", API)
def test_todays_names_exist_and_the_gone_ones_do_not(pattern: str):
    for state, name in API[pattern].items():
        assert importable(name) == (state != "gone"), name
        assert f"`{name}`" in text(artefact())


def test_the_artefact_of_these_tests_fits_the_schema():
    for data in (artefact(), artefact("h200", (2, 4))):
        check_schema(data, read_schema("schemas/distributed.schema.yaml"), "artefact")


def test_one_page_with_a_section_for_each_pattern_and_the_choice():
    page = survey([artefact()], MINIGPT)
    headings = re.findall(r"^## (\w+)", page, re.M)
    assert headings == ["DDP", "FSDP2", "TP", "PP", "Which", "Where"]
    prose = [line for line in page.splitlines() if not line.startswith(("|", "#", "!"))]
    assert 400 <= len(" ".join(prose).split()) <= 650
    for label in ("Pattern", "API", "When", "Communication", "When not"):
        assert page.count(f"- **{label}**") == 4


def test_every_run_has_a_row_with_its_figures():
    data = artefact("h200", (2, 4))
    of(data, "fsdp")["tokens_per_s"] = 123_456.0
    of(data, "fsdp")["peak_memory_bytes"] = [5_000_000, 7_300_000]
    page = survey([data], MINIGPT)
    assert "| NVIDIA H200, 2 ranks | FSDP2 | 123,456 (123.46x) | 7.3 MB |" in page
    assert len(re.findall(r"^\| NVIDIA H200, 4 ranks ", page, re.M)) == 4


def test_a_gpu_comes_before_a_cpu():
    page = text(artefact("cpu-test"), artefact("h200"))
    assert page.index("| NVIDIA H200 |") < page.index("| Acme |")


def test_formulas_that_hold_and_one_that_does_not():
    data = artefact()
    assert "the formula's in all 4 runs" in text(data)
    of(data, "tp")["matches_formula"] = False
    assert "but for TP on Acme, 2 ranks" in text(data)


def test_the_choice_follows_the_figures():
    data = artefact("h200")
    assert "DDP is my pick" in text(data)
    assert "1.80 times as fast under DDP on 2 ranks" in text(data)
    assert "DDP was the fastest" in text(data)
    assert "a second rank pays here" in text(data)
    slower = copy.deepcopy(data)
    of(slower, "ddp")["tokens_per_s"] = 500.0
    assert "FSDP2 was the fastest" in text(slower)
    assert "even DDP costs more than it brings" in text(slower)
    noisy = copy.deepcopy(data)
    noisy["single"]["step_seconds"] = [0.064, 0.03, 0.07]
    assert "up to 2.13 times its fastest" in text(noisy)
    assert "within the noise" in text(noisy)


def test_a_minigpt_that_fits_nowhere_is_sharded():
    large = MiniGPTConfig(vocab_size=50_000, block_size=1024, n_layer=48, n_head=16, n_embd=2048)
    assert "so FSDP2, which leaves" in text(artefact(), minigpt=large)


def test_a_stale_record_says_so():
    data = artefact("h200")
    restored = {
        "from": "results/recorded/h200/25/distributed.json",
        "sha256": "",
        "stale": True,
        "reasons": [{"code": "source_changed", "path": "x"}],
    }
    page = text({**data, "restored": restored})
    assert "NVIDIA H200 (stale)" in page
    assert "stale: x has changed." in page
    fresh = text({**data, "restored": {**restored, "stale": False, "reasons": []}})
    assert "(stale)" not in fresh
    assert "its sources are unchanged" in fresh


def test_what_was_left_out_is_said():
    data = artefact("h200")
    data["left_out"] = [{"code": "too_few_gpus", "ranks": 4, "here": 2}]
    assert "Not measured on NVIDIA H200: 4 GPUs are asked for and 2 are here." in text(data)


def ink(path: Path) -> float:
    """The share of pixels that are not white."""
    return float((matplotlib.image.imread(path)[..., :3].min(axis=2) < 0.95).mean())


def test_the_picture_grows_with_the_runs_and_is_hollow_where_stale(tmp_path: Path):
    files = [tmp_path / f"{name}.png" for name in ("one", "two", "stale")]
    data = artefact("h200")
    draw([data], files[0])
    draw([artefact("h200", (2, 4))], files[1])
    draw([{**data, "restored": {"stale": True}}], files[2])
    heights = [matplotlib.image.imread(path).shape[0] for path in files]
    assert heights[1] == pytest.approx(2 * heights[0], abs=2)
    assert ink(files[2]) < ink(files[0]) / 2
