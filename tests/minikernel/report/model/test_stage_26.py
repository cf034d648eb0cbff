"""Stage 26's report: what its sentences say is decided by the figures."""

import re

import pytest
from model_artefact import DEVICE_US, model_artefact

from minikernel.report.model.stage_26 import report_26, views
from minikernel.report.model.views import the_only
from minilab import LabError

STALE = {"stale": True, "from": "results/recorded/h200", "reasons": [{"code": "source_changed", "path": "tiles.cuh"}]}


def made_with(rung: str, us: dict[tuple[int, int], float]) -> dict:
    """The artefact, where a rung takes other microseconds in float32 at some shapes."""
    made = model_artefact()
    for row in made["forward"]:
        if row["rung"] == rung and row["dtype"] == "float32" and (row["batch"], row["time"]) in us:
            row["device_us"] = us[row["batch"], row["time"]]
    return made


def test_it_begins_with_five_sentences():
    page = report_26(model_artefact())
    found = re.findall(r"^- \*\*([\w ]+)[:*]", page.partition("## ")[0], re.M)
    assert found == ["Asked", "Found", "Surprising", "Not known", "Look next at"]


def test_a_graph_that_wins_is_said_first_and_where():
    page = report_26(made_with("graph", {(64, 64): 37.0}))
    assert "**Surprising:** fewer launches are not always faster: at 64 x 64" in page
    assert "- At 64 x 64, it is slower: the graph is 2.0" in page
    assert "- At 1 x 16, it is 1.8" in page


def test_autotuning_that_made_the_model_slower_is_said_and_where():
    slower = made_with("compile-max-autotune", {(2, 16): 1e6})
    page = " ".join(report_26(slower).split())
    assert "`compile-max-autotune` is slower than `compile-reduce-overhead` at 2 x 16 (1,000,000 against" in page
    assert "es más lento que `compile-reduce-overhead` con 2 x 16" in " ".join(report_26(slower, "es").split())
    faster = made_with("compile-max-autotune", dict.fromkeys([(1, 16), (2, 16), (64, 64), (512, 128)], 1.0))
    assert "is slower than `compile-reduce-overhead`" not in report_26(faster)


def test_a_call_that_misses_its_bar_says_how_little_of_it_is_the_devices():
    made = model_artefact()
    bar = next(bar for bar in made["bars"] if bar["what"] == "wall")
    bar.update(met=False, value=2.5)
    one = next(r for r in made["forward"] if (r["rung"], r["batch"], r["dtype"]) == ("one", bar["batch"], "float32"))
    one.update(wall_us=121.0, device_us=17.0)
    page = " ".join(report_26(made).split())
    assert "Of the 121 µs that a call takes at 1 x 16, the device works 17 µs; the rest is Python's" in page
    bar.update(met=True)
    assert "the device works" not in report_26(made)


def test_what_the_noise_hides_is_no_gain():
    one = next(row for row in model_artefact()["forward"] if (row["rung"], row["batch"]) == ("one", 512))
    made = made_with("graph", {(512, 128): one["device_us"] * (1 + one["noise_floor"] / 2)})
    assert "- At 512 x 128, the noise hides any difference between the two." in report_26(made)


@pytest.mark.parametrize(
    ("graph", "said"), [(24.7, "most of the gain does not need one kernel"), (80.0, "more than the fusing")]
)
def test_which_of_the_two_steps_gives_more(graph, said):
    assert said in report_26(made_with("graph", {(1, 16): graph}))


def test_a_missed_bar_says_by_how_much():
    made = model_artefact()
    bar = next(bar for bar in made["bars"] if bar["what"] == "forward")
    bar.update(met=False, value=5.4, bar=6.0)
    token = next(bar for bar in made["bars"] if bar["what"] == "token")
    token.update(met=False, value=7.7, bar=7.0, within_noise=True)
    none = next(bar for bar in made["bars"] if bar["what"] == "wall")
    none.update(met=False, value=None)
    page = report_26(made)
    assert "| 5.4 | 6 | missed by 10.0% |" in page
    assert "| 7.7 | 7 | missed by 10.0%, within the noise |" in page
    assert "| not measured | 8 | missed |" in page


def test_a_bar_that_is_met_by_less_than_the_noise_says_so():
    made = model_artefact()
    token = next(bar for bar in made["bars"] if bar["what"] == "token")
    token.update(met=True, value=6.5, bar=7.0, within_noise=False)
    for row in made["generate"]:
        row["noise_floor"] = 0.15
    assert "| 6.5 | 7 | met, within the noise |" in report_26(made)
    for row in made["generate"]:
        row["noise_floor"] = 0.05
    assert "| 6.5 | 7 | met |" in report_26(made)


def test_the_noise_of_each_clock_is_told():
    made = model_artefact()
    for row in made["forward"]:
        row.update(noise_floor=0.0123, wall_noise_floor=0.045)
    for row in made["generate"]:
        row["noise_floor"] = row["sequences"] / 1000
    page = report_26(made)
    assert "Timing `one` twice gave results up to 1.23% apart on the device, and up to 4.5% apart for a call." in page
    assert "gave results 0.1% apart for 1 sequence, 1.6% apart for 16 sequences, 12.8% apart for 128 sequences." in page


def test_where_the_number_of_eager_s_kernels_jumps_the_page_says_so():
    made = model_artefact()
    assert "What an operation launches" not in report_26(made)
    for row in made["forward"]:
        if row["rung"] == "eager" and row["kernels"]:
            row["kernels"] = 134 if row["batch"] == 2 else 71
    assert "a pass of `eager` is 71 kernels at 1 x 16, 134 kernels at 2 x 16, 71 kernels" in report_26(made)
    assert "71 kernels con 1 x 16, 134 kernels con 2 x 16" in report_26(made, "es")


def test_what_is_missing_leaves_its_part_out():
    made = model_artefact(forward=[], generate=[], timelines=[])
    page = report_26(made)
    assert "nothing yet" in page
    for absent in (
        "## What each rung removes",
        "## Where the time goes",
        "## In bfloat16",
        "## Writing",
        "None",
        "nan",
    ):
        assert absent not in page, absent


def test_what_was_left_out_is_told_with_its_reason():
    out = {"rung": "compile-max-autotune", "batch": 1, "time": 16, "dtype": "bfloat16"}
    more = {"rung": "one", "sequences": 128, "dtype": "float32", "reason": {"code": "raised", "text": "OutOfMemory"}}
    made = model_artefact(left_out=[out | {"reason": {"code": "compile_time_used_up"}}, more])
    page = report_26(made)
    assert "- `compile-max-autotune`, 1 x 16, bfloat16: its compiling had used up the time that it is given." in page
    assert "- `one`, 128 sequences, float32: it failed with OutOfMemory." in page


def test_a_stale_record_says_so_and_why():
    page = report_26(model_artefact() | {"restored": STALE})
    assert "*stale*: `tiles.cuh`" in page or "*stale*: tiles.cuh" in page


def test_every_row_of_the_parts_adds_up():
    rows = views(model_artefact())["parts"]
    assert len(rows) == 3 * len(DEVICE_US)
    for row in rows:
        parts = [row[f"{part}_us"] for part in ("launches", "waiting", "memory", "arithmetic")]
        assert sum(parts) == pytest.approx(row["device_us"])


def test_without_a_gpu_the_sentence_says_what_to_run():
    with pytest.raises(LabError, match=r"snakemake --cores 4 results/26/model\.png"):
        the_only([], "results/26/model.png")
