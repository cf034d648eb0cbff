"""The survey's words and picture follow the figures, and the names in it are those of the installed torch."""

import copy
import importlib
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest
from distributed_artefact import artefact
from matplotlib.axes import Axes

from minicompile.distributed.measure import patterns_on
from minicompile.distributed.patterns import SCHEDULES
from minicompile.report.survey import API, grouped, pipeline, survey
from minicompile.report.survey import SCHEDULES as NAMES
from minicompile.report.survey_plot import draw
from minilab.config.check import check_schema, read_schema
from minimodel.model_config import MiniGPTConfig

MINIGPT = MiniGPTConfig(vocab_size=600, block_size=128)


def text(*artefacts: dict, minigpt: MiniGPTConfig = MINIGPT) -> str:
    """The survey as one line, so that line ends do not matter."""
    return " ".join(survey(list(artefacts), minigpt).split())


def four_ranks() -> dict:
    """A GPU on which everything was measured, on two ranks and on four."""
    return artefact("h200", (2, 4), ("bfloat16", "float32"), patterns_on)


def of(artefact: dict, pattern: str, ranks: int = 0) -> dict:
    return next(run for run in artefact["runs"] if run["pattern"] == pattern and ranks in (0, run["ranks"]))


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
    for data in (artefact(), four_ranks()):
        check_schema(data, read_schema("schemas/distributed.schema.yaml"), "artefact")


@pytest.mark.parametrize("data", [artefact(), four_ranks()], ids=["the four patterns", "all"])
def test_one_page_with_a_section_for_each_pattern_and_the_choice(data: dict):
    page = survey([data], MINIGPT)
    headings = re.findall(r"^## (\w+)", page, re.M)
    assert headings == ["DDP", "FSDP2", "TP", "PP", "Which", "Where"]
    prose = [line for line in page.splitlines() if not line.startswith(("|", "#", "!"))]
    assert 400 <= len(" ".join(prose).split()) <= 600
    for label in ("Pattern", "API", "When", "Communication", "When not"):
        assert page.count(f"- **{label}**") == 4


def words(page: str) -> int:
    """How many words a page has; a table's bars are none, and part the words of its cells."""
    return len(re.findall(r"[^\s|]*\w[^\s|]*", page))


@pytest.mark.parametrize("device", ["h200", "cpu-test"])
@pytest.mark.parametrize("ranks", [(2,), (4,), (2, 4)])
@pytest.mark.parametrize("apart", [1, 3], ids=["quiet", "noisy"])
def test_the_page_has_at_most_750_words(device: str, ranks: tuple[int, ...], apart: int):
    """Every pattern, and every dtype there; the noise adds a sentence and takes the account of the pipeline away."""
    data = artefact(device, ranks, ("bfloat16", "float32"), patterns_on)
    for run in data["runs"]:
        run["step_seconds"] = [0.064 / apart] * 2 + [0.064] * 2
    page = survey([data], MINIGPT)
    assert ("Where speeds are hatched" in page) == ("equal within the noise" in page) == (apart > 1)
    assert words(page) <= 750
    assert len(page.split()) <= 750  # as wc -w counts


def test_every_run_has_a_row_with_its_figures():
    data = artefact("h200", (2, 4), ("float32", "bfloat16"))
    of(data, "fsdp")["tokens_per_s"] = 123_456.0
    page = survey([data], MINIGPT)
    assert "|NVIDIA H200, 2 ranks, float32|1,000|1.80×|123.46×|1.20×|1.10×|0.0 %|" in page
    rows = re.findall(r"^\|NVIDIA H200, (\d) ranks, (\w+)\|", page, re.M)
    assert rows == [("2", "bfloat16"), ("2", "float32"), ("4", "bfloat16"), ("4", "float32")]


def test_what_four_ranks_gain_hold_and_send_stands_beside_two():
    data = four_ranks()
    of(data, "fsdp", 4).update(tokens_per_s=2500.0, peak_memory_bytes=[7_000_000, 8_000_000] * 2)
    of(data, "fsdp", 4)["sent_bytes"] = [1_000.0, 2_000.0, 3_000.0, 4_000.0]
    of(data, "fsdp", 2)["sent_bytes"] = [500.0, 400.0]
    page = survey([data], MINIGPT)
    assert "From 2 ranks to 4 in bfloat16 (NVIDIA H200), at most:" in page
    assert "|FSDP2|2 MB → 8 MB|500 B → 4 kB|" in page
    speeds = re.findall(r"^\|NVIDIA H200, (\d) ranks, bfloat16\|1,000\|1.80×\|([^|]+)", page, re.M)
    assert speeds == [("2", "1.50×"), ("4", "2.50×")]
    rows = re.findall(r"^\|([^|]+)\|[\d.]+ MB →", page, re.M)
    assert rows == ["DDP", "FSDP2", "TP", "PP"]  # the mesh is on four ranks alone
    assert "From 2 ranks" not in survey([artefact("h200")], MINIGPT)


def test_where_four_ranks_were_not_measured_the_page_says_so():
    data = artefact("h200")
    assert "Two ranks alone were measured on NVIDIA H200." in text(data)
    assert "FSDP2 × TP, which needs four ranks, was not measured." in text(data)
    data["left_out"] = [{"code": "too_few_gpus", "ranks": 4, "here": 2}]
    assert "Two ranks alone" not in text(data)  # it was asked for more, and says that
    both = text(four_ranks(), artefact())
    assert "Two ranks alone were measured on Acme." in both
    assert "Two ranks alone were measured on NVIDIA" not in both


def test_the_mesh_of_two_patterns_has_a_column_and_says_what_it_sends():
    data = four_ranks()
    of(data, "fsdp_tp")["collectives"] = [{"all_gather": {"count": 3, "bytes": 7_000}}] * 4
    page = text(data)
    assert "Calls named below are one step's on NVIDIA H200, 2 ranks, bfloat16." in page
    assert "|DDP|FSDP2|TP|FSDP2 × TP|PP|noise|" in page
    assert "shards them between: 3 all-gathers (7 kB) (NVIDIA H200, 4 ranks, bfloat16)." in page
    assert "|NVIDIA H200, 2 ranks, float32|1,000|1.80×|1.50×|1.20×|—|1.10×|0.0 %|" in page
    assert "|NVIDIA H200, 4 ranks, float32|1,000|1.80×|1.50×|1.20×|1.30×|1.10×|0.0 %|" in page


def test_each_schedule_stands_beside_what_its_bubble_allows():
    data = four_ranks()
    of(data, "pp_zb1p", 4).update(tokens_per_s=3210.0, busy_seconds_by_rank=[[0.016] * 4, *([[0.02] * 4] * 3)])
    page = survey([data], MINIGPT)
    # four micro-batches: 2 x 12 / (12 + 3); of it 0.064 / 0.045 / 2 is left, what one process takes by the longest rank
    assert "|schedule|2 ranks allow|bfloat16|float32|4 ranks allow|bfloat16|float32|" in page
    assert "|`Schedule1F1B`|1.60×|1.10× (1.14×)|1.10× (1.14×)|2.29×|1.10× (0.81×)|" in page
    rows = dict(re.findall(r"^\|`Schedule(\w+)`(?:\|[^|]+){3}\|([^|]+\|[^|]+)", page, re.M))  # in bfloat16 on four
    assert rows == {
        "1F1B": "2.29×|1.10× (0.81×)",
        "Interleaved1F1B": "2.91×|1.15× (1.03×)",  # 4 x 12 / (12 + 9 / 2)
        "InterleavedZeroBubble": "3.56×|3.21× (2.84×)",  # 4 x 12 / (12 + 3 / 2), x 0.064 / 0.08
        "ZBVZeroBubble": "3.20×|1.18× (1.14×)",  # the V does not fill: 12 + 6 / 2
    }
    before = survey([artefact("h200")], MINIGPT)
    assert re.findall(r"^\|`Schedule\w+`\|[\d.]+×\|(.+)\|$", before, re.M) == ["1.10× (1.14×)", "—", "—", "—"]


def test_the_schedules_have_their_names_in_torch():
    pipelining = importlib.import_module("torch.distributed.pipelining")
    assert pipelining.Schedule1F1B.__name__ == NAMES["pp"]
    others = {name: getattr(pipelining, kind, None) for name, kind in NAMES.items() if name != "pp"}
    assert {**others, "pp": SCHEDULES["pp"]} == SCHEDULES


def test_a_gpu_comes_before_a_cpu():
    page = text(artefact("cpu-test"), artefact("h200"))
    assert page.index("|NVIDIA H200, 2") < page.index("|Acme, 2")


def test_formulas_that_hold_and_one_that_does_not():
    data = artefact()
    assert "All 4 runs send the formula's bytes exactly" in text(data)
    of(data, "tp")["matches_formula"] = False
    assert "but for TP on Acme, 2 ranks, float32" in text(data)


def test_the_choice_follows_the_figures():
    data = artefact("h200")
    assert "DDP is my pick" in text(data)
    assert "1.80 times as fast under DDP as in one process (NVIDIA H200, 2 ranks, float32)" in text(data)
    assert "DDP was the fastest" in text(data)
    assert "A second rank pays" in text(data)
    slower = copy.deepcopy(data)
    of(slower, "ddp")["tokens_per_s"] = 500.0
    assert "FSDP2 was the fastest" in text(slower)
    assert "even DDP costs more than it brings" in text(slower)
    noisy = copy.deepcopy(data)
    noisy["runs"][0]["step_seconds"] = [0.03, 0.03, 0.064, 0.064]
    assert "|113.3 %|" in text(noisy)
    assert "That factor is within the noise" in text(noisy)
    assert "were the fastest, equal within the noise" in text(noisy)


def test_a_minigpt_that_fits_nowhere_is_sharded():
    large = MiniGPTConfig(vocab_size=50_000, block_size=1024, n_layer=48, n_head=16, n_embd=2048)
    assert "so I pick FSDP2, which leaves" in text(artefact(), minigpt=large)


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


def test_why_a_pipeline_stays_below_its_bubble_follows_from_what_its_ranks_compute():
    data = artefact("h200")
    run, alone = of(data, "pp"), data["runs"][0]
    run["busy_seconds_by_rank"], run["step_seconds"] = [[0.04] * 4, [0.06] * 4], [0.08] * 4
    alone["step_seconds"] = [0.1, 0.1, 0.1, 0.101]
    run["tokens_per_s"] = 1250.0  # of one process's 1,000
    (group,) = grouped(data)
    found = pipeline(group)
    assert found["bound"] == pytest.approx(2 * 4 / 5)
    assert found["balance"] == pytest.approx(0.05 / 0.06)
    assert found["split"] == pytest.approx(1)
    assert found["product"] == pytest.approx(4 / 3)
    assert found["idle"] == pytest.approx([0.5, 0.25])
    page = text(data)
    assert "Ranks compute nothing for 25% to 50% of it" in page
    assert "The bubble allows 1.60×" in page
    assert "One stage (the last, with the LM head) computes 1.50 times as long as another (× 0.83)" in page
    assert "The product is 1.33×; the difference is not explained" in page
    run["tokens_per_s"] = 1000 * 4 / 3
    assert "1.33×, the measured figure within the noise" in text(data)
    run["busy_seconds_by_rank"] = [[0.06] * 4, [0.04] * 4]
    assert "with the LM head" not in text(data)
    alone["step_seconds"] = [0.1, 0.1, 0.15, 0.15]
    assert "1.33× was measured (NVIDIA H200, 2 ranks, float32): equal within the noise" in text(
        data
    )  # 1.60 and 1.33, and a noise of 50 %


def test_what_tensor_parallel_sends_is_held_against_its_step():
    data = artefact("h200", dtypes=("bfloat16",))
    assert "the 18 all-reduces of whole activations take 18 ms alone, 28% of a bfloat16 step" in text(data)


def test_a_gpu_that_was_surveyed_in_float32_alone_is_said_to_be():
    assert "bfloat16 was not measured on NVIDIA H200" in text(artefact("h200"))
    assert "bfloat16 was not measured" not in text(artefact("h200", dtypes=("float32", "bfloat16")))


def test_what_only_draws_imports_no_torch():
    code = "import sys, minicompile.report.survey_plot; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_was_left_out_is_said():
    data = artefact("h200")
    data["left_out"] = [{"code": "too_few_gpus", "ranks": 4, "here": 2}]
    assert "4 ranks were not measured on NVIDIA H200, which had 2 GPUs." in text(data)


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


def test_a_picture_has_a_bar_for_each_pattern(tmp_path: Path):
    draw([artefact("h200")], tmp_path / "four.png")
    draw([four_ranks()], tmp_path / "all.png")
    four, every = (matplotlib.image.imread(tmp_path / f"{name}.png").shape[0] for name in ("four", "all"))
    assert every == pytest.approx(four * 2 * (9 + 10) / 6, rel=0.01)  # half an inch a bar, as much for each title


def test_speeds_that_the_noise_hides_are_hatched_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hatched = []
    plain = Axes.barh

    def barh(self, *places, hatch=None, **more):
        hatched.append(hatch)
        return plain(self, *places, hatch=hatch, **more)

    monkeypatch.setattr(Axes, "barh", barh)
    noisy = artefact()
    for run in noisy["runs"]:
        run["step_seconds"] = [0.02, 0.02, 0.064, 0.064]
    for data, expected in ((artefact(), [None] * 15), (noisy, ["////"] * 5 + [None] * 10)):
        hatched.clear()
        draw([data], tmp_path / "survey.png")
        assert hatched == expected
    assert "Where speeds are hatched" in text(noisy)
    assert "hatched" not in text(artefact())
