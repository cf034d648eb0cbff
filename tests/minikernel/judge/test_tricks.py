"""Tricks on a GPU's clock, each by a kernel of `tricks.py`: what the judge says (docs/known_tricks.md lists them)."""

import re
from pathlib import Path

import pytest
import torch

from minikernel.judge.bench import bench_users_kernel
from minikernel.reasons import in_words

pytestmark = [
    pytest.mark.usefixtures("forked"),
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
TRICKS = Path(__file__).parents[1] / "tricks.py"
PARAMS = {"shapes": [[4096, 600]], "dtype": "float32", "launches": 20, "warmup": 2, "seed": 42}
WRONG = "largest relative error|a NaN|right is"
CLOCK = "its process says that a call took .* µs, and by the judge's clock it took"
SAID = {
    "nothing_while_captured": WRONG,
    "once_in_a_graph": WRONG,
    "one_long_launch": CLOCK,
    "in_a_thread": f"{CLOCK}|{WRONG}",
    "at_the_next_call": WRONG,
    "events_patched": CLOCK,
    "nobody_waits": CLOCK,
    "within_the_spin": CLOCK,
    "after_the_end": CLOCK,
    "says_half": CLOCK,
    "reveals_late": "gave the digest of one result and showed another",
    "leaves_rows_out": WRONG,
}


def bench(function: str, params: dict = PARAMS) -> tuple[dict, str | None]:
    entry = {"source": str(TRICKS), "function": function}
    timed, reason = bench_users_kernel("mine", entry, params, "cuda:0", 300, lambda line: None)
    return timed, reason and in_words(reason)


@pytest.mark.parametrize("function", SAID)
def test_a_trick_is_found(function: str):
    timed, reason = bench(function)
    assert timed["rows"] == []
    assert re.search(SAID[function], reason or "")


@pytest.mark.parametrize("function", ["on_a_second_stream", "beside_the_spin"])
def test_a_second_stream_gains_nothing(function: str):
    """Eight launches take the host longer than the spin does, so that events see them: else the judge's clock does."""
    timed, reason = bench(function)
    assert re.search(CLOCK, reason) if reason else timed["rows"][0]["median_us"] > 0.9 * timed["rows"][0]["graph_us"]


@pytest.mark.parametrize("function", ["honest", "slow"])
def test_an_honest_kernel_is_timed(function: str):
    """Of two, one does eight times as much as the other."""
    timed, reason = bench(function)
    assert reason is None
    (row,) = timed["rows"]
    assert (row["graph_us"] > 4 * row["reference_graph_us"]) == (function == "slow")
    assert row["graph_us"] < 1.1 * row["median_us"]
