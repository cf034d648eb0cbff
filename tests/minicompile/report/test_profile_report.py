"""The profile's words and picture follow its figures."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from profile_artefact import BUSY, profile

from minicompile.report.profile_report import (
    attention_sentences,
    findings,
    interpretation,
    left_out,
    rate,
    report,
    share,
)
from minicompile.report.profile_roofline import draw
from minicompile.report.words import duration, kernel_number, shape, short_kernel, size
from minilab.config.check import check_schema, read_schema

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
    changed["timings"][0].update(speedup=2.0, verdict="faster")
    changed["timings"][0]["eager"]["median_us"] = 80.0
    said = interpretation(changed)[0]
    assert "2.00 times as fast" in said
    assert "slower" not in said
    assert "after 100,000 calls" in said  # 4 s over 40 us


def test_a_gap_within_the_noise_is_no_verdict():
    changed = profile()
    changed["timings"][0].update(verdict="same", noise=0.62, speedup=0.51)
    said = interpretation(changed)[0]
    assert "no difference of `default` from eager can be told" in said
    assert "up to 62% apart" in said
    assert "times as" not in said


def modes(*given: tuple[str, float, float]) -> dict:
    """A profile of modes, each (name, microseconds, seconds of its cold compile)."""
    made = profile()
    made["provenance"]["device"] = "h200"
    row = made["timings"][0]
    made["timings"] = [
        {**row, "mode": mode, "compiled": {**row["compiled"], "median_us": us}, "cold_compile_seconds": seconds}
        for mode, us, seconds in given
    ]
    return made


def test_a_mode_that_compiles_longer_and_runs_slower_is_remarked_on():
    told = " ".join(interpretation(modes(("reduce-overhead", 495.0, 4.6), ("max-autotune", 624.0, 40.0))))
    assert (
        "`max-autotune` compiles for longer than `reduce-overhead`, 40.0 against 4.6 s, and its code is slower" in told
    )
    within_noise = " ".join(interpretation(modes(("reduce-overhead", 495.0, 4.6), ("max-autotune", 505.0, 40.0))))
    cheaper = " ".join(interpretation(modes(("default", 624.0, 3.0), ("max-autotune", 495.0, 40.0))))
    alike = " ".join(interpretation(modes(("default", 948.0, 8.7), ("reduce-overhead", 301.0, 6.9))))
    assert "compiles for longer" not in within_noise + cheaper + alike


def test_what_the_noise_hides_has_no_factor_and_a_noise_beyond_the_time_itself_is_a_factor():
    """On a machine with twenty jobs the page had "25.39" in its column and timings "up to 4276% apart"."""
    busy = profile()
    busy["timings"][0].update(verdict="same", noise=42.76, speedup=25.39)
    for language, times in (("en", "one took up to 43.8 times as long"), ("es", "uno duró hasta 43,8 veces")):
        assert times in " ".join(interpretation(busy, language)[0].split())
        row = next(line for line in report(busy, language).splitlines() if line.startswith("| (") and "276" in line)
        assert "25" not in row.split(" | ")[5]
    assert "For a CUDA graph" not in report(busy)


def test_a_bandwidth_is_never_written_with_an_exponent():
    assert [rate("en", gb_per_s) for gb_per_s in (0.123, 99.4, 99.6, 1460.0)] == ["0.123", "99.4", "100", "1,460"]
    assert rate("es", 0.5) == "0,5"


def test_a_bandwidth_above_a_copys_has_its_reasons():
    made = profile()
    made["shapes"][0]["kernels"] = [made["shapes"][0]["kernels"][0] | {"noise": 0.0}]
    for fraction, said in ((1.05, True), (1.004, False), (0.9, False)):
        made["shapes"][0]["kernels"][0]["fraction_of_copy"] = fraction
        assert ("more than a copy's can be" in " ".join(interpretation(made))) == said


@pytest.mark.parametrize(("language", "said"), [("en", "No cache explains that"), ("es", "Ninguna caché explica eso")])
def test_a_share_of_a_copy_that_no_cache_explains_is_the_copys_fault(language, said):
    made = profile()
    for fraction, doubted in ((148.1, True), (5.0, False)):
        for kernel in made["shapes"][0]["kernels"]:
            kernel.update(noise=0.0, fraction_of_copy=fraction)
        told = " ".join(interpretation(made, language))
        assert (said in told) == doubted


def test_a_call_that_was_taken_apart_and_was_another_than_the_timed_one_has_no_shares():
    changed = profile()
    timed = changed["timings"][0]["compiled"]["median_us"]
    changed["shapes"][0]["split"].update(call_us=1000 * timed)
    told = " ".join(" ".join(interpretation(changed)).split())
    assert "while it was taken apart" in told
    assert "Guards and wrapper" not in told
    assert "the compiled call's time is" not in told


def test_parts_are_named_by_their_share_largest_first():
    changed = profile()
    assert "guards and prologue 50%, library calls 28%" in interpretation(changed)[1]
    assert "the generated kernels 5.0%" in interpretation(changed)[1]
    changed["shapes"][0]["split"].update(guards_us=2.0, kernels_us=20.0)
    assert "time is the generated kernels 50%" in interpretation(changed)[1]


def test_what_the_parts_do_not_explain_is_said():
    changed = profile()
    assert "unexplained" not in interpretation(changed)[1]
    changed["shapes"][0]["split"].update(call_us=80.0, rest_us=41.0)
    assert "51% unexplained." in interpretation(changed)[1]


def test_the_machine_is_called_busy_by_what_was_measured_alone():
    changed = profile()
    changed["shapes"][0]["split"].update(call_us=80.0, rest_us=41.0)
    assert "processor time" not in report(changed)
    changed["shapes"][0]["busy"] = changed["busy"][0]["busy"] = BUSY
    told = [sentence for sentence in interpretation(changed) if "processor time" in sentence]
    assert len(told) == 2
    for sentence in told:
        assert "43% of the machine's processor time" in sentence
        assert "interrupted 1,204 times in 2.0 s" in sentence


@pytest.mark.parametrize(("value", "said"), [(0.0, "0%"), (0.0004, "under 0.1%"), (0.004, "0.4%"), (0.123, "12%")])
def test_a_small_share_is_not_called_nothing(value: float, said: str):
    assert share("en", value) == said
    changed = profile()
    call = 40.0 / value if value else 40.0
    changed["shapes"][0]["split"].update(call_us=call, guards_us=40.0, rest_us=0.0)
    changed["timings"][0]["compiled"]["median_us"] = call
    if value:
        assert f"guards and prologue {said}" in " ".join(interpretation(changed))


def test_both_sides_memory_stands_beside_each_other_with_the_difference():
    changed = profile()
    changed["timings"][0]["eager"]["peak_bytes"] = 20_000
    changed["timings"][0]["compiled"]["peak_bytes"] = 8_000
    changed["timings"][0]["pool_bytes"] = 2_097_152
    assert "| 20 kB | 8 kB | -12 kB | 2.1 MB |" in report(changed)


def test_the_datasheet_stands_beside_the_copy():
    changed = profile()
    changed["roofline"]["datasheet_gb_per_s"] = 48.0
    assert "| 24% | 10% |" in report(changed)  # 4.8 GB/s of a copy's 20 and the datasheet's 48
    assert "| 24% | not stated |" in report(profile())


def test_what_of_a_users_model_could_not_be_measured_is_a_sentence():
    changed = profile()
    changed["left_out"] = [
        {"shape": None, "mode": "default", "reason": {"code": "eager", "raised": "ValueError: boom"}},
        {"shape": None, "mode": None, "reason": {"code": "refused", "sentence": "It cannot be."}},
    ]
    told = report({**changed, "timings": [], "shapes": [], "kernels": [], "attention": []})
    assert "- tiny_head has no times in mode default: it fails without torch.compile too (ValueError: boom)." in told
    assert "is not taken apart: It cannot be." in told


@pytest.mark.parametrize("language", ["en", "es"])
def test_every_reason_of_a_refusal_has_its_words(language: str):
    named = set()
    for path in (ROOT / "src/minicompile/profile").glob("*.py"):
        named |= set(re.findall(r'"code": "(\w+)"', path.read_text()))
        named |= set(re.findall(r'NotProfiled\([^)]*?, "(\w+)"', path.read_text(), re.S))
    assert {"timed_out", "crashed", "eager", "no_graph"} <= named
    fields = dict.fromkeys(("raised", "sentence", "names", "signal", "seconds"), "x")
    for code in named:
        changed = {**profile(), "left_out": [{"shape": None, "mode": None, "reason": {"code": code, **fields}}]}
        assert len(left_out(changed, language)) == 1


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
    assert "3 recompiles among the timed calls and 1 graph break" in interpretation(changed)[-1]


def test_attention_says_which_is_faster():
    row = profile()["attention"][0]
    assert "2.00 times as fast" in attention_sentences(row)[1]
    row["fused"]["core"]["us"] = 24.0
    assert "2.00 times as long" in attention_sentences(row)[1]
    row["fused"]["noise"]["core"] = 3.0
    assert "the noise hides a difference in time" in attention_sentences(row)[1]


def test_attentions_difference_says_of_what():
    row = {**profile()["attention"][0], "dtype": "bfloat16", "max_difference": 0.098, "largest_output": 0.98}
    row["from_float32"] = {"explicit": 0.07, "fused": 0.05}
    told = attention_sentences(row)[-1]
    assert "at most 0.098, 10% of the largest output, 0.98" in told
    assert "the one written out is at most 0.07 away, the fused one 0.05" in told


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
    assert len(tables) == 5
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


def drawn(made: dict, path: Path, monkeypatch: pytest.MonkeyPatch):
    """The figure of a profile, laid out and not yet closed."""
    from minicompile.report import profile_roofline

    figures = []
    monkeypatch.setattr(profile_roofline.plt, "close", figures.append)
    draw(made, path)
    monkeypatch.undo()
    return figures[0]


def test_no_label_of_the_picture_lies_over_another_and_no_name_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made, kernel = profile(), profile()["kernels"][0]
    long = "triton_per_fused_add_addmm_arange_embedding_native_layer_norm_masked_fill_softmax_online_view"
    places = [(0.9, 0.0031), (0.95, 0.003), (1.2, 0.0028), (1.3, 0.004), (0.12, 0.0004), (4.0, 0.02), (4.1, 0.0201)]
    made["shapes"][0]["kernels"] = [
        {**kernel, "name": f"{long}_{number}", "flop_per_byte": x, "tflop_per_s": y}
        for number, (x, y) in enumerate(places)
    ]
    figure = drawn(made, tmp_path / "roofline.png", monkeypatch)
    figure.draw_without_rendering()
    roofline, bars = (axes for part in figure.subfigs for axes in part.axes)
    for axes, labels in ((roofline, roofline.texts), (bars, bars.get_yticklabels())):
        boxes = [label.get_window_extent() for label in labels]
        assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])
        assert all(figure.bbox.contains(*corner) for box in boxes for corner in (box.min, box.max)), axes
    numbers = [text.get_text() for text in roofline.texts if text.get_text()[0].isdigit()]
    assert sorted(",".join(numbers).replace(" ", "").split(",")) == [str(number) for number in range(len(places))]
    assert all("..." not in name.get_text() for name in bars.get_yticklabels())
    plt.close(figure)


def test_a_kernel_whose_rounds_disagree_is_hatched_and_not_spoken_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = profile()
    made["shapes"][0]["kernels"][1].update(noise=0.6, fraction_of_copy=1.15)
    figure = drawn(made, tmp_path / "roofline.png", monkeypatch)
    bars = figure.subfigs[0].axes[1]
    assert [bool(bar.get_hatch()) for bar in bars.patches] == [False, True]
    plt.close(figure)
    told = " ".join(interpretation(made))
    assert "115%" not in told
    assert "One kernel is left out of this, because its two quietest rounds lie too far apart" in told


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_profile_without_kernels_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str):
    from minicompile.report import profile_roofline

    figures = []
    close = profile_roofline.plt.close
    monkeypatch.setattr(profile_roofline.plt, "close", figures.append)
    timed_only = {**profile(), "shapes": []}
    left = [{"shape": None, "mode": None, "reason": {"code": "no_graph"}}]
    for made, why in ((timed_only, "kernels: true"), ({**timed_only, "left_out": left}, "PROFILE.md")):
        draw(made, tmp_path / "roofline.png", language)
        [said] = [text.get_text() for text in figures[-1].texts]
        close(figures[-1])
        assert why in said
    assert (tmp_path / "roofline.png").stat().st_size > 0
    assert "roofline.png" not in report(timed_only, language)


def test_names_are_shortened_to_what_was_fused():
    name = "triton_per_fused__softmax_div_masked_fill_3"
    assert kernel_number(name) == "3"
    assert short_kernel("en", name) == "3  softmax div masked fill"


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
    assert duration("en", -18_600.0) == "-18.6 ms"  # what the parts are over the call
    assert shape("en", [2, 64]) == "(2, 64)"


def test_parts_that_add_up_to_far_more_than_the_call_get_no_share():
    made = profile()
    made["shapes"][0]["split"] |= {"kernels_us": 100.0, "rest_us": -97.0}
    (parts,) = [found for found in findings(made) if found["code"] in ("shares", "no_shares")]
    assert (parts["code"], parts["sum"]) == ("no_shares", pytest.approx(137 / 40))
    assert "add up to 3.4 times the call" in " ".join(interpretation(made))
