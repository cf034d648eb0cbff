"""A user's kernel is timed on inputs that change before each call; what is not done, or too fast to be, is found."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from minikernel.judge.bench import _Bench, bench_users_kernel
from minikernel.ops.registry import SPECS
from minikernel.reasons import in_words
from minilab.config.check import check_schema, read_schema

pytestmark = pytest.mark.usefixtures("forked", "small_cache")
ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parents[1]
PARAMS = {"shapes": [[64, 600]], "dtype": "float32", "launches": 100, "warmup": 3, "seed": 42}
LARGE = {**PARAMS, "shapes": [[2048, 600]], "launches": 20}
BENCH = read_schema(ROOT / "schemas/bench.schema.yaml")
ROWS = {"$defs": BENCH["$defs"], **BENCH["properties"]["rows"]}


def bench(function: str, params: dict = PARAMS, seconds: float = 300) -> tuple[dict, str | None]:
    entry = {"source": str(HERE / "misbehaving.py"), "function": function}
    timed, reason = bench_users_kernel("mine", entry, params, "cpu", seconds, lambda line: None)
    return timed, reason and in_words(reason)


def test_a_good_kernel_is_timed_beside_the_reference_and_a_copy():
    timed, reason = bench("good")
    assert reason is None
    (row,) = timed["rows"]
    check_schema(timed["rows"], ROWS, "rows")
    assert {name: len(samples) for name, samples in row["samples_us"].items()} == dict.fromkeys(
        ("mine", "again", "copy", "F.softmax"), 100
    )
    assert 1e-9 < row["max_rel_err"] < 2e-6
    assert timed["autotune"] is None


@pytest.mark.parametrize(
    ("function", "params", "said"),
    [
        ("wrong_when_large", PARAMS, "largest relative error"),
        ("remembers_by_address", PARAMS, "largest relative error"),
        ("remembers_by_first_values", LARGE, "largest relative error"),
        ("wrong_at_every_97th_call", PARAMS, "largest relative error"),
        ("works_only_where_it_is_looked_at", LARGE, "a NaN, a shape or a dtype|largest relative error"),
        ("changes_its_input_by_a_bit", PARAMS, "changed its input"),
        ("puts_the_work_off", LARGE, "largest relative error|a NaN"),
        ("crashes_when_large", PARAMS, r"it crashed its process \(SIGSEGV\)"),
        ("slows_the_clock", PARAMS, r"its process says that a call took .* µs, and by the judge's clock it took"),
    ],
)
def test_what_is_wrong_while_timed_is_left_out(function: str, params: dict, said: str):
    timed, reason = bench(function, params)
    assert timed["rows"] == []
    assert re.match(rf"kernel mine on cpu, while timed at shape \(\d+, 600\) in float32: .*({said})", reason or "")


def test_where_the_clocks_part_for_a_while_the_shape_is_timed_anew(monkeypatch: pytest.MonkeyPatch):
    """The clocks are written down here, because those of a busy machine part by themselves."""
    launches, really, called = 20, _Bench._call, Counter()

    def call(self: _Bench, provider: str, i: int, timed: bool = True) -> None:
        really(self, provider, i, timed)
        if timed:
            called[provider] += 1
            hides = provider in ("mine", "again") and called[provider] <= 2 * launches
            self.timings[provider].samples_us[-1], self.unseen[provider][-1] = 100.0, 5000.0 if hides else 50.0

    monkeypatch.setattr(_Bench, "_call", call)
    monkeypatch.setattr("minikernel.judge.bench.PAUSE_SECONDS", 0)
    params = {**PARAMS, "launches": launches}
    timed, reason = bench("good", params)
    assert reason is None
    assert [len(samples) for samples in timed["rows"][0]["samples_us"].values()] == [launches] * 4
    # right from the third try on, but what was seen in the two before goes on to count: only the fifth outweighs them
    assert called["mine"] == 5 * launches
    called.clear()
    monkeypatch.setattr("minikernel.judge.bench.CLOCK_TRIES", 4)
    said = "its process says that a call took 100.0 µs, and by the judge's clock it took"
    assert said in (bench("good", params)[1] or "")


def test_what_is_faster_than_a_copy_can_be_is_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("minikernel.judge.bench.CLOCK_SLACK_US", 1e12)  # on a busy machine the clocks tell first
    timed, reason = bench("stops_the_clock")
    assert timed["rows"] == []
    assert re.search("GB/s it would be faster than a copy, which reaches .* GB/s here, so it cannot have", reason or "")


def test_a_graph_that_is_faster_than_a_copy_can_be_is_wrong(monkeypatch: pytest.MonkeyPatch):
    """A graph of nothing takes 0.061 us: what a CPU cannot capture is written down here."""
    really = _Bench._time_calls

    def time_calls(self: _Bench) -> None:
        really(self)
        for provider, timing in self.timings.items():
            timing.graph_samples_us = [0.061 if provider in ("mine", "again") else 2000.0]

    monkeypatch.setattr(_Bench, "_time_calls", time_calls)
    monkeypatch.setattr("minikernel.judge.bench.CLOCK_SLACK_US", 1e12)
    timed, reason = bench("good", {**PARAMS, "launches": 5})
    assert timed["rows"] == []
    assert "while timed at shape (64, 600) in float32: in a CUDA graph, at 5,036.1 GB/s it would be faster" in str(
        reason
    )


def test_one_that_hangs_while_timed_is_ended():
    _, reason = bench("hangs_when_large", seconds=15)
    assert re.search("it did not end within 15 seconds, the limit of bench.time_limit_seconds", reason or "")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_users_kernel_is_tuned_on_a_gpu_where_it_can_be(tmp_path: Path):
    source = tmp_path / "mine.py"  # a kernel of the user's that offers all that the lab's own Triton kernel does
    source.write_text(SPECS["triton"].source.read_text())
    entry = {"source": str(source), "function": "softmax"}
    timed, reason = bench_users_kernel("mine", entry, PARAMS, "cuda:0", 300, lambda line: None)
    assert reason is None
    choices = {(choice["rows"], choice["cols"]): choice["config"] for choice in timed["autotune"]["choices"]}
    for row in timed["rows"]:
        assert row["config"] == choices[row["rows"], row["cols"]]
        assert row["graph_us"] > 0
