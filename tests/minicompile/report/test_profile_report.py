"""The profile's words and picture follow its figures."""

import re
from pathlib import Path

import pytest
from profile_artefact import profile

from minicompile.report.profile_report import attention_sentences, interpretation, report
from minicompile.report.profile_roofline import draw
from minicompile.report.words import duration, kernel_number, shape, short_kernel, size
from minilab.config import check_schema, read_schema

ROOT = Path(__file__).parents[3]


def test_the_example_fits_the_schema():
    check_schema(profile(), read_schema(ROOT / "schemas/profile.schema.yaml"), "profile.json")


def test_slower_is_said_with_the_factor_and_the_overhead():
    said = interpretation(profile())[0]
    assert "slower" in said
    assert "2.00 times as long" in said
    assert "65% of a compiled call" in said  # guards and wrapper, 26 of 40


def test_faster_is_said_with_the_calls_that_pay_for_the_compile():
    changed = profile()
    changed["timings"][0]["speedup"] = 2.0
    changed["timings"][0]["eager"]["median_us"] = 80.0
    said = interpretation(changed)[0]
    assert "2.00 times as fast" in said
    assert "slower" not in said
    assert "after 100,000 calls" in said  # 4 s over 40 us


@pytest.mark.parametrize("speedup", [0.97, 1.04])
def test_a_gap_within_the_noise_is_called_none(speedup: float):
    changed = profile()
    changed["timings"][0]["speedup"] = speedup
    assert "takes what eager takes" in interpretation(changed)[0]


def test_parts_are_named_by_their_share_largest_first():
    changed = profile()
    assert "guards and prologue 50%, library calls 28%" in interpretation(changed)[1]
    changed["shapes"][0]["split"].update(guards_us=2.0, kernels_us=20.0)
    assert "time is the generated kernels 50%" in interpretation(changed)[1]


def test_what_the_parts_do_not_explain_is_said():
    changed = profile()
    assert "unexplained" not in interpretation(changed)[1]
    changed["shapes"][0]["split"].update(call_us=80.0, rest_us=41.0)
    assert "51% unexplained" in interpretation(changed)[1]


@pytest.mark.parametrize(("host", "said"), [(30.0, "device waits for the host"), (1.0, "host waits for the device")])
def test_on_a_gpu_the_slower_side_is_named(host: float, said: str):
    changed = profile()
    changed["shapes"][0]["split"].update(overlapping=True, rest_us=None, guards_us=host, wrapper_us=0.0)
    assert said in interpretation(changed)[1]


@pytest.mark.parametrize(("device", "told"), [("cpu-x", True), ("h200", False)])
def test_reduce_overhead_is_told_to_be_nothing_on_a_cpu_only(device: str, told: bool):
    changed = profile()
    changed["timings"].append({**changed["timings"][0], "mode": "reduce-overhead"})
    changed["provenance"]["device"] = device
    assert ("CUDA graphs" in " ".join(interpretation(changed))) == told


def test_recompiles_and_breaks_are_told():
    changed = profile()
    assert "no graph breaks" in interpretation(changed)[-1]
    changed["timings"][0].update(recompiles=3, graph_breaks=1)
    assert "3 recompiles among the timed calls and 1 graph breaks" in interpretation(changed)[-1]


def test_attention_says_which_is_faster():
    row = profile()["attention"][0]
    assert "2.00 times as fast" in attention_sentences(row)[1]
    row["fused"]["core"]["us"] = 24.0
    assert "2.00 times as slow" in attention_sentences(row)[1]


def test_attention_compares_nothing_that_is_not_there():
    row = profile()["attention"][0]
    row["explicit"]["softmax_kernel"], row["fused"]["operator"] = None, None
    said = " ".join(attention_sentences(row))
    assert "no generated kernel holds the softmax" in said
    assert "no times are compared" in said


def test_attentions_table_names_both_sides():
    text = report(profile())
    assert "\n| written out | " in text
    assert "\n| `scaled_dot_product_attention` | " in text


def test_every_table_of_the_report_has_as_many_cells_as_its_head():
    tables = re.findall(r"(?:^\|.*\n)+", report(profile()), re.M)
    assert len(tables) == 4
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_a_stale_record_is_called_so():
    changed = {
        **profile(),
        "restored": {
            "from": "x",
            "sha256": "0",
            "stale": True,
            "reasons": [{"code": "source_changed", "path": "model.py"}],
        },
    }
    assert "model.py has changed" in report(changed)
    assert "stale" not in report(profile())


def test_the_picture_has_a_dot_for_each_kernel_that_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from minicompile.report import profile_roofline

    figures = []
    close = profile_roofline.plt.close
    monkeypatch.setattr(profile_roofline.plt, "close", figures.append)
    draw(profile(), tmp_path / "roofline.png")
    roofline, bars = (axes for part in figures[0].subfigs for axes in part.axes)
    close(figures[0])
    dots = [line for line in roofline.lines if line.get_marker() == "o"]
    assert [(dot.get_xdata()[0], dot.get_ydata()[0]) for dot in dots] == [(0.625, 0.003)]
    assert [label.get_text() for label in bars.get_yticklabels()] == ["0  softmax", "1  clone"]
    assert (tmp_path / "roofline.png").stat().st_size > 0


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_profile_without_kernels_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str):
    from minicompile.report import profile_roofline

    figures = []
    close = profile_roofline.plt.close
    monkeypatch.setattr(profile_roofline.plt, "close", figures.append)
    timed_only = {**profile(), "shapes": []}
    draw(timed_only, tmp_path / "roofline.png", language)
    [said] = [text.get_text() for text in figures[0].texts]
    close(figures[0])
    assert "kernels: true" in said
    assert (tmp_path / "roofline.png").stat().st_size > 0
    assert "roofline.png" not in report(timed_only, language)


def test_names_are_shortened_to_what_was_fused():
    name = "triton_per_fused__softmax_div_masked_fill_3"
    assert kernel_number(name) == "3"
    assert short_kernel(name) == "3  softmax div masked fill"


@pytest.mark.parametrize(
    ("count", "said"), [(600, "600 B"), (9624, "9.62 kB"), (16_900_000, "16.9 MB"), (5.3e9, "5.3 GB"), (None, "")]
)
def test_bytes_are_written_with_their_unit(count: float | None, said: str):
    assert size("en", count) == said
    assert size("es", count) == said.replace(".", ",")


def test_times_and_shapes_are_written_as_people_read_them():
    assert [duration("en", us) for us in (2.0, 999.4, 999.6, 1_234_567.0)] == [
        "2 µs",
        "999 µs",
        "0.9996 ms",
        "1,235 ms",
    ]
    assert shape([2, 64]) == "(2, 64)"
