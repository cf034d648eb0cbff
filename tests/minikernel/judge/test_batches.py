"""Many calls at once, by the judge's clock: what hides from the clock of one call, or computes what is looked at alone.

On a CPU, whose clock stands for a GPU's: what is told of a call is written down here, and what is seen is real.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import tricks
from simulated_gpu import COPY, SLOW, SOFTMAX, Process, simulated

from minikernel.judge import batches, bench
from minikernel.judge.batches import Batches, Provider, space
from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.memory import Block
from minikernel.judge.spread import digest, weights_of
from minikernel.judge.starting import WAITING
from minikernel.measure.timing import Timing

pytestmark = pytest.mark.usefixtures("forked")
TRICKS = Path(__file__).parents[1] / "tricks.py"
SHAPE = [64, 600]
TOLD = {"mine": [50.0], "F.softmax": [50.0]}


@pytest.fixture
def seen() -> Callable:
    """Runs batches of one of the tricks beside F.softmax; what the judge's clock saw of a call."""

    def run(function: str, rounds: int = 3, told: dict = TOLD) -> float:
        with ExitStack() as stack:
            own, others = (stack.enter_context(KernelProcess(name, "cpu", 60, "", WAITING)) for name in TOLD)
            own.load("mine", {"source": str(TRICKS), "function": function})
            others.load("F.softmax", None)
            block = Block(4096 + space(SHAPE, "float32"))
            for process in (own, others):
                process.use(block)
            block.close()
            own.place("time", shape=SHAPE, dtype="float32")
            providers = {"mine": Provider(own, "mine"), "F.softmax": Provider(others, "F.softmax")}
            many = Batches(providers, ["F.softmax"], SHAPE, "float32", (block, 4096), judged)
            return many.seen({name: list(one) for name, one in told.items()}, rounds, graph=False)["mine"]

    def judged(results: torch.Tensor, x: torch.Tensor, rows: list[int]) -> None:
        if not torch.allclose(results, torch.softmax(x.double(), -1).float(), atol=0, rtol=1e-5):
            raise Failed({"code": "wrong_in_kind"})

    return run


def test_an_honest_kernel_has_its_calls_seen_and_its_rows_looked_at(seen: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "SLACK_US", 1e9)  # the machine may be busy
    assert seen("honest", 9) < 2000


def test_what_a_process_conceals_of_two_milliseconds_is_seen(seen: Callable, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Failed) as failure:
        seen("says_half")
    reason = failure.value.reason
    assert reason["code"] == "clock"
    assert reason["microseconds"] == 50
    assert 1000 < reason["seen"] < 1e5


@pytest.mark.parametrize(
    ("hidden", "told", "count", "found"),
    [
        (9, 50, 20, False),
        (11, 50, 20, True),
        (90, 50, 2, False),
        (110, 50, 2, True),
        (11, 120, 20, False),
        (13, 120, 20, True),
    ],
)
def test_two_hundred_microseconds_or_a_tenth_of_a_batch_can_be_hidden(hidden: int, told: int, count: int, found: bool):
    """What either clock says is written down here: all batches cost 3000 us besides the calls."""
    many = object.__new__(Batches)
    at = {"code": "time", "kernel": "mine", "device": "cuda:0", "shape": SHAPE, "dtype": "float32"}
    process = SimpleNamespace(at=at)
    many.providers = {name: Provider(process, name) for name in ("mine", "F.softmax")}
    many.trusted, many.count = ["F.softmax"], count
    took = {"mine": told + hidden, "F.softmax": 20}
    many._batch = lambda name, graph: (3000 + count * took[name], told)
    clocks = {"mine": [float(told)], "F.softmax": [20.0]}
    if not found:
        assert many.seen(clocks, 3, graph=False) == {"mine": pytest.approx(told + hidden)}
        return
    with pytest.raises(Failed) as failure:
        many.seen(clocks, 3, graph=False)
    assert failure.value.reason["code"] == "clock"
    assert failure.value.reason["seen"] == pytest.approx(told + hidden)


def test_who_remembers_rows_finds_all_of_them_new(seen: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "SLACK_US", 1e9)
    assert seen("only_new_rows") < 1e5  # and nothing is raised


@pytest.mark.parametrize("function", ["at_the_next_call", "leaves_rows_out"])
def test_a_batch_that_is_not_computed_is_wrong(seen: Callable, monkeypatch: pytest.MonkeyPatch, function: str):
    monkeypatch.setattr(batches, "SLACK_US", 1e9)
    with pytest.raises(Failed) as failure:
        seen(function)
    assert failure.value.reason["code"] == "wrong_in_kind"


def test_who_computes_what_is_asked_for_when_it_is_asked_for_gave_another_digest(seen: Callable):
    with pytest.raises(Failed) as failure:
        seen("reveals_late")
    assert failure.value.reason["code"] == "another"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_bit_of_a_row_is_in_its_digest_and_the_seed_decides_how(dtype: torch.dtype):
    rows = torch.randn((3, 40), generator=torch.Generator().manual_seed(0)).to(dtype)
    weights = weights_of(1, 40)
    first = digest(rows, weights)
    whole, sign = (torch.int32, -(1 << 31)) if dtype == torch.float32 else (torch.int16, -(1 << 15))
    for bit in (1, 1 << 5, sign):
        other = rows.clone()
        other.view(whole)[1, 17] ^= bit
        assert (digest(other, weights) != first).tolist() == [False, True, False]
    assert (digest(rows, weights_of(2, 40)) != first).all()
    assert torch.equal(digest(rows.T.contiguous().T, weights), first)


@pytest.mark.parametrize(
    ("shape", "dtype", "count"),
    [
        ([64, 600], "float32", 20),
        ([32768, 600], "float32", 13),
        ([32768, 600], "bfloat16", 20),
        ([2**20, 600], "float32", 2),
    ],
)
def test_a_batch_has_as_many_inputs_as_have_room(shape: list[int], dtype: str, count: int):
    assert batches.count_of(shape, dtype) == count
    digests, looked_at = count * shape[0] * 8, count * 16 * shape[1]
    assert digests + looked_at * 2 <= space(shape, dtype) <= digests + 4096 + looked_at * 4


def judged_alone_and_in_graphs(function: str, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float, float]:
    """Told of a call by itself, seen of calls and seen of graphs, as the bench judges a kernel on a simulated GPU."""
    gpu, seen = simulated(monkeypatch), []
    honest_seen = Batches.seen

    def watched(self: Batches, *given, **named) -> dict:
        seen.append(honest_seen(self, *given, **named)["mine"])
        return {"mine": seen[-1]}

    monkeypatch.setattr(Batches, "seen", watched)
    for rounds in ("BATCHES", "GRAPHS"):  # times are counted here, so that a few say the same
        monkeypatch.setattr(bench, rounds, 3)
    judged = object.__new__(bench._Bench)
    judged.block, judged.results = Block(4096 + space(SHAPE, "float32")), 4096
    kernels = {"mine": getattr(tricks, function), "F.softmax": tricks.honest, "copy": tricks.copied}
    judged.own = judged.others = process = Process(gpu, kernels, judged.block)
    judged.config, judged.params, judged._judge = None, {"dtype": "float32"}, judged_here
    judged.rows, judged.cols = SHAPE
    judged.providers = {name: (process, name) for name in kernels}
    judged.timings = {name: Timing(process.alone(name)) for name in kernels}
    judged._time_batches()
    judged.block.close()
    return judged.timings["mine"].median_us, seen[0], seen[1]


def judged_here(results: torch.Tensor, x: torch.Tensor, rows: list[int]) -> None:
    assert torch.allclose(results, torch.softmax(x.double(), -1).float(), atol=0, rtol=1e-5)


def test_on_a_simulated_gpu_an_honest_kernel_is_seen_as_it_tells():
    """Of 60 us as of 9: what lies besides the calls is taken off."""
    for function, takes in (("slow", SLOW), ("honest", SOFTMAX)):
        with pytest.MonkeyPatch.context() as patch:
            told, calls, graphs = judged_alone_and_in_graphs(function, patch)
        assert told == pytest.approx(takes)
        assert calls == pytest.approx(takes, abs=1)
        assert graphs == pytest.approx(takes, abs=1)


def test_one_long_launch_on_a_second_stream_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Events of the current stream miss it, and the judge's clock does not: the device is waited for."""
    with pytest.raises(Failed) as failure:
        judged_alone_and_in_graphs("one_long_launch", monkeypatch)
    reason = failure.value.reason
    assert reason["code"] == "clock"
    assert reason["microseconds"] < 10
    assert 150 < reason["seen"] < 175  # 300,000 cycles, and a softmax


def test_work_beside_the_spin_is_seen_where_a_graph_has_no_spin_for_each_call(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch, pytest.raises(Failed) as failure:
        judged_alone_and_in_graphs("beside_the_spin", patch)
    reason = failure.value.reason
    assert reason["code"] == "clock"
    assert reason["microseconds"] == pytest.approx(COPY, abs=0.1)
    assert reason["seen"] == pytest.approx(SLOW, abs=1)
