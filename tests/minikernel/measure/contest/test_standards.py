"""The standards, on contests made by hand: what is compared with what, and which bar holds where."""

import pytest

from minikernel.measure.contest.standards import standards

COPY = 4000.0


def row(kernel, us, rows=524288, cols=600, dtype="float32", direction="forward", **changes):
    place = {"kernel": kernel, "direction": direction, "rows": rows, "cols": cols, "dtype": dtype}
    timing = {"median_us": us, "graph_us": us - 1, "noise_floor": 0.01, "graph_noise_floor": 0.002}
    return place | timing | changes


def head(kernel, us, rows=65536, error=5e-7):
    return row(kernel, us, rows) | {"max_rel_err": error}


def host(kernel, us, requires_grad=False):
    place = {"kernel": kernel, "rows": 64, "cols": 600, "dtype": "float32", "requires_grad": requires_grad}
    return place | {"median_us": us, "noise_floor": 0.01}


def judge(rows=(), number=None, timing="events", **parts):
    parts = {"head": [], "host": [], "left_out": []} | parts
    found = standards({"rows": list(rows), "copy_gb_per_s": COPY, "cache_bytes": 60_000_000, **parts})
    return [entry for entry in found if entry["standard"] == number and entry["timing"] == timing]


def test_our_best_is_held_against_the_best_peer():
    rows = [row("fused", 600), row("triton", 610), row("F.softmax", 700), row("quack", 605), row("softmax", 590)]
    (entry,) = judge(rows, 1)
    assert (entry["ours"], entry["ours_us"], entry["peer"], entry["peer_us"]) == ("fused", 600, "quack", 605)
    assert entry["value"] == pytest.approx(600 / 605)
    assert (entry["met"], entry["within_noise"]) == (True, False)
    (graphs,) = judge(rows, 1, "graphs")
    assert graphs["value"] == pytest.approx(599 / 604)
    assert graphs["noise_floor"] == 0.002


@pytest.mark.parametrize(("us", "met", "within_noise"), [(600, True, False), (603, False, True), (620, False, False)])
def test_a_bar_is_exact_and_the_noise_is_said_beside_it(us, met, within_noise):
    (entry,) = judge([row("fused", us), row("quack", 600)], 1)
    assert (entry["met"], entry["within_noise"]) == (met, within_noise)


@pytest.mark.parametrize(
    ("direction", "number", "rows", "cols", "bar"),
    [
        ("forward", 2, 524288, 600, 0.97),
        ("forward", 2, 8192, 32768, 0.97),
        ("forward", 2, 4096, 131072, 0.95),
        ("forward", 2, 16384, 50257, 0.95),
        ("backward", 4, 524288, 600, 0.98),
        ("backward", 4, 4096, 131072, 0.98),
        ("backward", 4, 16384, 50257, 0.95),
    ],
)
def test_share_of_the_copy_by_direction_and_width(direction, number, rows, cols, bar):
    moved = (2 if direction == "forward" else 3) * rows * cols * 4
    copy_us = moved / COPY / 1e3
    for us, met in ((copy_us / bar * 0.999, True), (copy_us / bar * 1.001, False)):
        entries = judge(
            [row("fused", us, rows, cols, direction=direction), row("quack", us, rows, cols, direction=direction)],
            number,
        )
        (entry,) = [entry for entry in entries if entry["peer"] == "copy"]
        assert entry["bar"] == bar
        assert entry["value"] == pytest.approx(copy_us / us)
        assert entry["met"] is met
        assert entry["peer_us"] == pytest.approx(copy_us)


def test_what_fits_into_three_caches_has_no_share_of_the_copy():
    assert judge([row("fused", 42, rows=32768), row("quack", 43, rows=32768)], 2) == []
    assert judge([row("fused", 42, rows=65536), row("quack", 43, rows=65536)], 2) != []


def test_triton_is_held_against_our_best_up_to_32768_columns():
    (entry,) = judge([row("fused", 600), row("triton", 640), row("quack", 500)], 3)
    assert (entry["ours"], entry["peer"], entry["value"], entry["met"]) == ("triton", "fused", 600 / 640, False)
    (entry,) = judge([row("fused", 640), row("triton", 600)], 3)
    assert (entry["peer"], entry["value"], entry["met"]) == ("triton", 1, True)
    assert judge([row("fused", 600, cols=50257), row("triton", 640, cols=50257)], 3) == []
    assert judge([row("fused", 6, direction="backward"), row("triton", 9, direction="backward")], 3) == []


def test_the_host_is_held_against_f_softmax_with_and_without_a_gradient():
    calls = [host("F.softmax", 5), host("softmax", 4), host("F.softmax", 7, True), host("softmax", 14, True)]
    plain, with_gradient = judge(host=calls, number=5, timing="host")
    assert (plain["value"], plain["met"]) == (4 / 5, True)
    assert (with_gradient["value"], with_gradient["met"]) == (2, False)
    assert plain["what"] != with_gradient["what"]


def test_the_head_is_held_against_torch_compile_and_float64():
    rows = [head("linear_softmax", 100), head("linear_softmax-tf32", 50), head("compile", 260), head("eager", 240)]
    entries = [entry for entry in judge(head=rows, number=6) if entry["rows"] == 65536]
    speed, error = entries
    assert (speed["peer"], speed["value"], speed["bar"], speed["met"]) == ("compile", 2.6, 2.5, True)
    assert (error["value"], error["bar"], error["met"]) == (5e-7, 1e-6, True)
    inexact = judge(head=[head("linear_softmax", 100, error=1.1e-6)], number=6)
    assert not next(entry for entry in inexact if entry["rows"] == 65536 and "error" in entry["what"])["met"]


@pytest.mark.parametrize(
    ("rows", "number"), [([row("quack", 600)], 1), ([row("fused", 600)], 1), ([row("fused", 600)], 3)]
)
def test_what_was_not_measured_is_not_met(rows, number):
    (entry,) = judge(rows, number)
    assert (entry["value"], entry["met"], entry["within_noise"]) == (None, False, False)


def test_a_shape_that_was_left_out_as_a_whole_is_not_met():
    place = {"direction": "backward", "rows": 4096, "cols": 131072, "dtype": "bfloat16"}
    lost = [{"part": "softmax", "kernel": "all", "reason": "out of memory", **place}]
    ratio, share = judge(left_out=lost, number=4)
    assert {key: ratio[key] for key in place} == place
    assert not ratio["met"]
    assert not share["met"]
    assert judge(left_out=[{**lost[0], "part": "host"}], number=4) == []
