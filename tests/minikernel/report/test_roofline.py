"""The roofline's arithmetic and its picture."""

from pathlib import Path

import numpy as np
import pytest
from artefacts import bench, bench_row, ceilings, cpu_bench, head_row, heads
from matplotlib.backends.backend_agg import FigureCanvasAgg

from minikernel.measure import cost
from minikernel.report import roofline_plot
from minikernel.report.roofline import head, head_caption, panel, ridge
from minikernel.report.roofline_plot import LABEL_GAP, draw, inside, other_copies, slopes, spread
from minilab import LabError
from minilab.device import slug

ROWS = [bench_row("naive", 512, 900.0), bench_row("fused", 512, 90.0), bench_row("triton", 512, 95.0, stale=True)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SVG of a GPU's kernels alone, as text."""
    folder = tmp_path_factory.mktemp("plain")
    draw([panel(ceilings(), bench(ROWS), [512, 600])], folder / "r.png", folder / "r.svg")
    return (folder / "r.svg").read_text()


def test_cost_of_a_softmax():
    assert cost.softmax_bytes(512, 600, 4) == 512 * 600 * 8
    assert cost.softmax_flop(512, 600) == 512 * 600 * 5
    assert cost.datasheet("h200")["memory_gb_per_s"] == 4800
    assert cost.datasheet("cpu-amd-epyc") is None


# By the name that the driver gives: multiprocessors, float32 lanes of one, boost clock in GHz; pins of the memory and
# what each carries, Gbit/s; bf16 operations of one multiprocessor and clock on tensor cores that accumulate in
# float32, and the clock that the maker reckons these with. What reviews and the tools of the driver tell of the chip.
CHIPS = {
    "NVIDIA H200": (132, 128, 1.98, 6144, 6.25, 4096, 1.83),
    "NVIDIA H100 80GB HBM3": (132, 128, 1.98, 5120, 5.23, 4096, 1.83),
    "NVIDIA H100 PCIe": (114, 128, 1.755, 5120, 3.19, 4096, 1.62),
    "NVIDIA A100-SXM4-40GB": (108, 64, 1.41, 5120, 2.43, 2048, 1.41),
    "NVIDIA A100-SXM4-80GB": (108, 64, 1.41, 5120, 3.186, 2048, 1.41),
    "NVIDIA A100-PCIE-40GB": (108, 64, 1.41, 5120, 2.43, 2048, 1.41),
    "NVIDIA A100 80GB PCIe": (108, 64, 1.41, 5120, 3.024, 2048, 1.41),
    "NVIDIA L4": (58, 128, 2.04, 192, 12.5, 1024, 2.04),
    "NVIDIA L40S": (142, 128, 2.52, 384, 18, 1024, 2.49),
    "NVIDIA GeForce RTX 3090": (82, 128, 1.695, 384, 19.5, 512, 1.695),
    "NVIDIA GeForce RTX 4090": (128, 128, 2.52, 384, 21, 512, 2.52),
    "NVIDIA GeForce RTX 5090": (170, 128, 2.407, 512, 28, 512, 2.407),
}


@pytest.mark.parametrize("name", CHIPS)
def test_a_card_that_people_have_has_its_makers_peaks(name: str):
    """Worked out from the chip. Rates of tensor cores are dense, and bf16 has twice the rate of TF32."""
    multiprocessors, lanes, clock, pins, gbit, operations, tensor_clock = CHIPS[name]
    sheet = cost.datasheet(slug(name))
    assert sheet is not None
    assert sheet["fp32_tflop_per_s"] == pytest.approx(multiprocessors * lanes * 2 * clock / 1e3, rel=0.01)
    assert sheet["memory_gb_per_s"] == pytest.approx(pins * gbit / 8, rel=0.03)
    assert sheet["bf16_tflop_per_s"] == pytest.approx(multiprocessors * operations * tensor_clock / 1e3, rel=0.01)
    # the L40S's datasheet gives 183 and 362.05
    assert sheet["tf32_tflop_per_s"] == pytest.approx(sheet["bf16_tflop_per_s"] / 2, rel=0.012)


def test_a_card_that_is_not_known_has_no_peaks_and_one_without_chip_facts_has():
    assert cost.datasheet(slug("NVIDIA GeForce GTX 9999")) is None
    sheet = cost.datasheet(slug("NVIDIA B200"))
    assert sheet is not None
    assert sheet["bf16_tflop_per_s"] > 2 * 989  # of two dies


@pytest.mark.parametrize(("device", "said"), [("geforce-gtx-9999", True), ("cpu-amd-epyc", False)])
def test_a_card_without_a_datasheet_is_drawn_without_dashes_and_says_so(tmp_path: Path, device: str, said: bool):
    made = bench(ROWS)
    made["provenance"]["device"] = device
    draw([panel(ceilings(), made, [512, 600])], tmp_path / "r.png", tmp_path / "r.svg")
    text = (tmp_path / "r.svg").read_text()
    assert ("no datasheet of this card is known here" in text) == said
    assert "thin dashes: datasheet" not in text


def test_ridge_is_where_memory_stops_being_the_limit():
    assert ridge(4000, 60) == 15


def test_panel_takes_the_headline_shape_fastest_first():
    shown = panel(ceilings(), bench([*ROWS, bench_row("fused", 64, 5.0)]), [512, 600])
    assert [point["kernel"] for point in shown["points"]] == ["fused", "triton", "naive"]
    assert [point["stale"] for point in shown["points"]] == [False, True, False]
    assert shown["name"] == "NVIDIA H200"
    assert shown["ceilings"]["copy_gb_per_s"] == 4000


def test_panel_without_the_headline_shape_is_refused():
    with pytest.raises(LabError, match=r"has no row at the headline shape \[64, 600\]"):
        panel(ceilings(), bench(ROWS), [64, 600])


def test_spread_keeps_order_and_distance_and_moves_no_more_than_needed():
    values = np.array([0.1, 0.5, 0.505, 0.51, 0.9])
    moved = spread(values, 0.08)
    assert (np.diff(moved) >= 0.08 - 1e-12).all()
    assert moved[[0, 4]] == pytest.approx(values[[0, 4]])
    assert moved[2] == pytest.approx(0.505)


def drawn(folder: Path, *panels: dict, name: str = "r") -> str:
    """The picture of some panels, one below the other, as the text of its SVG."""
    draw(list(panels), folder / f"{name}.png", folder / f"{name}.svg")
    return (folder / f"{name}.svg").read_text()


def test_stale_dots_are_said_and_the_same_panels_give_the_same_bytes(tmp_path):
    panels = [
        panel(ceilings(), bench(ROWS), [512, 600]),
        panel(ceilings(tf32_tflop_per_s=None, bf16_tflop_per_s=None), bench(ROWS, "cpu-a"), [512, 600]),
    ]
    svg, again = (drawn(tmp_path, *panels, name=name) for name in "ab")
    for text in ("naive  900 µs", "fused  90 µs", "triton  95 µs (stale)", "NVIDIA H200", "A Chip", "FLOP per byte"):
        assert text in svg
    assert svg == again
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_stale_ceilings_are_said_on_every_roof(tmp_path):
    fresh_rows = bench([bench_row("fused", 512, 90.0)])
    both = [panel(measured, fresh_rows, [512, 600]) for measured in (ceilings(restored={"stale": True}), ceilings())]
    assert drawn(tmp_path, *both).count("(stale)") == 5  # three compute ceilings, two slopes


HEADS = [
    head_row("eager", 64, 9.0),
    head_row("linear_softmax", 4096, 10.0),
    head_row("linear_softmax-tf32", 4096, 8.0),
    head_row("compile", 4096, 25.0),
    head_row("eager", 4096, 30.0),
]


def test_a_cache_slower_than_memory_is_no_limit():
    for cache, limits in ((6000.0, ["copy_gb_per_s", "l2_gb_per_s"]), (1.0, ["copy_gb_per_s"])):
        assert list(slopes(ceilings() | {"l2_gb_per_s": cache})) == limits


def test_fusion_moves_the_head_right_by_the_bytes_of_the_logits():
    shown = head(heads(HEADS))
    assert shown["rows"] == 4096
    assert [point["kernel"] for point in shown["points"]] == ["linear_softmax", "compile", "eager"]
    assert shown["unfused"] == "compile"
    assert shown["speedup"] == pytest.approx(2.5)
    apart, fused = shown["flop_per_byte"]
    assert fused / apart == pytest.approx((64 + 3 * 600) / (64 + 600))
    caption = head_caption(shown)
    assert f"{apart:.3g} FLOP per byte. Fused, it keeps them in registers" in caption
    assert "takes 40% of the time" in caption


@pytest.mark.parametrize("rows", [[], HEADS[3:], HEADS[1:3]])
def test_without_both_a_fused_and_an_unfused_head_there_is_none(rows: list[dict]):
    assert head(heads(rows)) is None


def test_a_head_that_fell_back_is_not_drawn_as_fused():
    assert head(heads([head_row("linear_softmax", 64, 9.0, fused=False), HEADS[0]])) is None


def test_the_picture_shows_the_head_where_the_panel_has_one(tmp_path):
    given = (heads(HEADS), heads(HEADS, restored={"stale": True}), None)
    svg = drawn(tmp_path, *(panel(ceilings(), bench(ROWS), [512, 600], one) for one in given))
    assert svg.count("linear_softmax  10 µs<") == 2
    assert svg.count("The LM head computes softmax(linear(h)), here of 4,096 rows.") == 2
    assert (svg.count(">LM head<"), svg.count(">LM head (stale)<")) == (1, 1)


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_names_of_the_head_stay_inside_stale_or_not(tmp_path, monkeypatch, language):
    figures = []
    monkeypatch.setattr(roofline_plot.plt, "close", figures.append)
    rows = [head_row(name, 1048576, 1145.0) for name in ("linear_softmax", "compile", "eager")]
    given = bench([*ROWS, bench_row("triton_textbook", 512, 93.0)])
    both = [panel(ceilings(), given, [512, 600], heads(rows, **stale)) for stale in ({}, {"restored": {"stale": True}})]
    draw(both, tmp_path / "r.png", tmp_path / "r.svg", language)
    seen = FigureCanvasAgg(figures[-1]).get_renderer()
    for part in figures[-1].subfigs:
        axes = part.axes[0]
        named = [text for text in axes.texts if any(row["kernel"] in text.get_text() for row in rows)]
        assert len(named) == len(rows)
        assert all(text.get_window_extent(seen).x0 >= axes.get_window_extent(seen).x0 for text in named)


def test_a_cpus_other_copies_are_drawn_beside_the_plain_one_where_they_differ(tmp_path, plain):
    shown = panel(ceilings(), cpu_bench(), [32768, 600])
    assert shown["fresh_copy"]["fraction_of_copy"] == pytest.approx(1 / 3)
    assert shown["fresh_copy"]["gb_per_s"] == pytest.approx(2 * 32768 * 600 * 4 / 60e-3 / 1e9)
    assert shown["streaming_copy"]["fraction_of_copy"] == pytest.approx(20 / 16)
    svg = drawn(tmp_path, shown, panel(ceilings(), bench(ROWS), [512, 600]))
    for said in ("a copy that allocates", "fresh result 2.62 GB/s", "a copy past the caches", "caches 9.83 GB/s"):
        assert svg.count(said) == 1
    alike = {**shown, "streaming_copy": {"gb_per_s": 7.9, "fraction_of_copy": 1.01}}
    assert (list(other_copies(shown)), list(other_copies(alike))) == (["fresh_copy", "streaming_copy"], ["fresh_copy"])


def test_what_is_above_the_roof_has_no_bar_and_its_dot_is_marked(tmp_path):
    rows = [*ROWS, bench_row("smem", 512, 0.3, above_roof=True)]
    shown = panel(ceilings(), bench(rows), [512, 600])
    assert [point["kernel"] for point in shown["points"]] == shown["bars"] == ["fused", "triton", "naive", "smem"]
    svg = drawn(tmp_path, shown)
    assert "smem  0.3 µs (not trusted)" in svg
    assert "faster than a copy: not trusted" in svg
    assert f"{100 * shown['points'][-1]['fraction_of_copy']:.3g} %" not in svg


def test_a_cpus_dots_and_bars_have_the_same_copy_over_them():
    elsewhere = ceilings(copy_gb_per_s=1.0)  # timed by another job, in a busy minute
    shown = panel(elsewhere, cpu_bench(), [32768, 600])
    slope = shown["ceilings"]["copy_gb_per_s"]
    for point in shown["points"]:
        under = point["tflop_per_s"] * 1e3 / point["flop_per_byte"] / slope
        assert under == pytest.approx(point["fraction_of_copy"])


def test_labels_of_dots_never_overlap_and_stay_inside():
    for count in (1, 5, 9):
        heights = np.full(count, 0.9)
        gap = min(LABEL_GAP, 0.8 / max(count - 1, 1))
        labels = inside(spread(heights, gap), gap, 0.1, 0.9)
        assert labels.min() >= 0.1 - 1e-9
        assert labels.max() <= 0.9 + 1e-9
        assert (np.diff(labels) >= gap - 1e-9).all()


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("devices", [1, 4])
def test_names_of_forty_characters_stand_beside_one_another(tmp_path: Path, devices: int, language: str):
    """What stands on what is looked for wherever these tests draw (overlaps.py)."""
    times = {"naive": 9000.0, "smem": 900.0, "warp": 95.0, "fused": 90.0, "triton": 91.0, "F.softmax": 93.0}
    rows = [bench_row(kernel, 524288, 100 * us) for kernel, us in {**times, "s" * 40: 92.0, "compile": 92.5}.items()]
    one = panel(ceilings(), bench(rows), [524288, 600], heads(HEADS))
    draw(
        [one | {"name": "NVIDIA RTX PRO 6000 Blackwell Server Ed."}] * devices,
        tmp_path / "r.png",
        tmp_path / "r.svg",
        language,
    )
