"""What is said and drawn of a CPU's rungs follows from what was measured, and what was not is left out."""

from pathlib import Path

import pytest
from artefacts import allocation, bench, bench_row, ceilings, counted, cpu_bench, made, way

from minikernel.report import ladder_plot
from minikernel.report.ladder import ladder, share_alike
from minikernel.report.roofline import bars, of_one_copy, panel
from minikernel.report.stage_24 import report_24

HEADLINE = [32768, 600]


def said(cost: dict, **parts) -> str:
    """What the report says of it, line breaks as blanks."""
    parts = {"benches": [cpu_bench()], **parts}
    return " ".join(report_24(made(autotune=None, allocations=[cost], **parts)).split())


def test_each_rung_says_its_gain_and_its_share_of_a_copy_that_gets_its_memory_alike():
    text = report_24(made(benches=[cpu_bench()], autotune=None, allocations=[allocation(rungs=True)]))
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    steps = {row[0].strip("| `"): [cell.strip(" |") for cell in row[2:]] for row in cells if len(row) == 5}
    assert steps == {
        "loop": ["", "13%", "40%"],
        "vectors": ["2.08", "28%", "83%"],
        "threads": ["1.04", "29%", "87%"],
        "streaming": ["3.29", "95%", "95%"],
    }
    assert "of a copy that gets its memory alike" in text


def test_what_the_rungs_ran_into_is_said_in_figures():
    text = said(allocation(rungs=True))
    assert "A call of `threads` meets 10,000 page faults; its result is 19,200 pages of 4 kB." in text
    assert "works 20 ms in such a call, on all threads together. The calls that were counted are others" in text
    assert "than those timed above; their median is 69 ms." in text
    assert "A call of `streaming` meets 3 page faults, because its result gets memory that is already there." in text
    assert "takes 16 cycles an element, 20 times as long as that of the vectors, which takes 0.8 (time, at" in text
    assert "this machine has no counter for them" in text
    assert "takes 80% of a plain copy's time" in text


def test_no_difference_is_said_that_the_samples_do_not_show():
    timed = cpu_bench()
    for row in timed["rows"]:
        row["samples_us"]["streaming_copy"] = [16000.0, 16000.0, 21000.0]
    assert "was not measurably faster than a plain one" in said(allocation(rungs=True), benches=[timed])
    slow = allocation(rungs=True)
    of = slow["exponential"]["of"]
    slow["exponential"] = slow["exponential"] | {"of": {"libm": of["libm"], "vector": of["vector"] | {"ns": 6.0}}}
    assert "cycles an element" not in said(slow)
    none = allocation(page_faults=0, rungs=True)
    none["ways"]["streaming"] = way(21000.0, 0)
    assert "page faults; its result" not in said(none)


def test_bytes_are_said_where_the_processor_counts_them():
    text = said(counted(allocation(rungs=True)))
    assert "`threads` fetches 0.24 GB from memory, `streaming` 0.08 GB; the logits are 0.079 GB." in text
    assert "(the processor's own count)" in text
    forbidden = allocation(rungs=True) | {"counters": dict.fromkeys(("cycles", "cache_misses"), "forbidden")}
    assert "the system forbids it (`kernel.perf_event_paranoid`)" in said(forbidden)


def test_what_the_machine_lacks_is_said():
    left_out = allocation(rungs=True) | {"build": {"vector_bytes": 16, "left_out": ["long_vectors", "threads"]}}
    text = said(left_out)
    assert "the vectors are the shortest that any of its kind has" in text
    assert "The compiler has no OpenMP, so all rungs run on one thread." in text
    assert "so `threads` is `vectors` again" in said(allocation(rungs=True) | {"threads": 1})


def test_a_rung_that_is_faster_than_a_copy_could_be_gains_nothing():
    busy = cpu_bench()
    busy["rows"][3] |= {"above_roof": True, "median_us": 100.0}
    bars_of = {bar["kernel"]: bar for bar in ladder(busy, allocation(rungs=True), HEADLINE)["bars"]}
    assert bars_of["streaming"]["alike"] is None
    figure = ladder_plot.figure_of(ladder(busy, allocation(rungs=True), HEADLINE))
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "0.1 (not trusted)" in texts
    assert not any("900" in text for text in texts)


def test_without_a_compiler_the_rungs_are_left_out_and_nothing_is_drawn():
    rows = [bench_row("F.softmax", 32768, 90000.0, copy_us=20000.0)]
    assert ladder(bench(rows, "cpu-a"), allocation(), HEADLINE) is None
    text = report_24(made(benches=[bench(rows, "cpu-a")], autotune=None, allocations=[allocation()]))
    assert "There is no C++ compiler here, so the rungs in C++ are left out." in text
    assert "ladder.png" not in text


def test_a_rung_s_share_is_of_the_copy_whose_memory_comes_as_its_own_does():
    cost = allocation(rungs=True)
    rows = {row["kernel"]: row for row in cpu_bench()["rows"]}
    assert share_alike(rows["threads"], cost) == pytest.approx(60000 / 69000)
    assert share_alike(rows["streaming"], cost) == pytest.approx(20000 / 21000)
    assert share_alike(rows["F.softmax"], cost) == pytest.approx(60000 / 90000)
    assert share_alike(rows["loop"] | {"kernel": "numpy"}, cost) is None
    assert share_alike(bench_row("loop", 512, 9.0), cost) is None


def test_the_picture_has_a_panel_for_each_thing_that_was_measured(tmp_path: Path):
    cost = allocation(rungs=True)
    texts = {}
    for name in ("uncounted", "counted"):
        shown = ladder(cpu_bench(), cost, HEADLINE)
        ladder_plot.draw(shown, tmp_path / "l.png", tmp_path / f"{name}.svg")
        texts[name] = (tmp_path / f"{name}.svg").read_text()
        for one in cost["ways"].values():
            one["cache_misses"] = 2_000_000
    for said_there in ("A Chip, 2 threads", "150;  0.60x", "21;  4.29x", "10,000", ">16<", ">0.8<", "plain copy"):
        assert said_there in texts["uncounted"]
    assert "GB from memory" not in texts["uncounted"]
    assert "GB from memory" in texts["counted"]
    assert ">0.13<" in texts["counted"]


def test_the_same_figures_give_the_same_picture(tmp_path: Path):
    shown = ladder(cpu_bench(), allocation(rungs=True), HEADLINE)
    for name in "ab":
        ladder_plot.draw(shown, tmp_path / f"{name}.png", tmp_path / f"{name}.svg", "es")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "fallos de página" in (tmp_path / "a.svg").read_text()


def test_a_cpu_s_bars_are_its_rungs_in_their_order_and_a_gpu_s_the_fastest_first():
    us = {"numpy": 9.0, "threads": 5.0, "vectors": 4.0, "F.softmax": 6.0, "loop": 20.0, "streaming": 1.0}
    assert bars(us, "cpu-a") == ["streaming", "threads", "vectors", "loop", "F.softmax", "numpy"]
    assert bars({"naive": 9.0, "fused": 1.0, "triton": 2.0}, "h200") == ["fused", "triton", "naive"]


def test_shares_of_one_copy_never_contradict_the_times():
    rows = [  # each timed beside a copy of its own: the faster one's was faster still
        bench_row("fused", 512, 90.0, fraction_of_copy=0.90),
        bench_row("triton", 512, 95.0, fraction_of_copy=0.93),
    ]
    fused, triton = of_one_copy(rows)
    assert fused["fraction_of_copy"] / triton["fraction_of_copy"] == pytest.approx(95 / 90)
    shown = panel(ceilings(), bench(rows), [512, 600])
    assert [point["kernel"] for point in shown["points"]] == ["fused", "triton"]
    assert shown["points"][0]["fraction_of_copy"] > shown["points"][1]["fraction_of_copy"]
    assert of_one_copy([]) == []
