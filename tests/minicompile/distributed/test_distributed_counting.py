"""What the counters see: collectives with their bytes on a fake group of any size, and live memory."""

import pytest
import torch
import torch.distributed as dist
from distributed_artefact import SIZES
from torch.distributed import _functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from minicompile.distributed.collectives import CollectiveCounter
from minicompile.distributed.formulas import buckets, expected, sent_bytes
from minicompile.distributed.launch import environment
from minicompile.distributed.memory import LiveTensors
from minicompile.distributed.parts import StagePart, batches, build_model
from minicompile.distributed.patterns import PATTERNS, Training
from minicompile.distributed.pipeline import Stretches

CPU = torch.device("cpu")
RANKS = 4


@pytest.fixture
def group(request: pytest.FixtureRequest):
    """A process group in which the other ranks are only pretended."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=getattr(request, "param", RANKS))
    yield
    dist.destroy_process_group()


def test_each_kind_is_counted_with_its_payload(group):
    part, whole = torch.zeros(3), torch.zeros(3 * RANKS)
    with CollectiveCounter() as counter:
        dist.all_reduce(part)
        dist.all_reduce(part)
        dist.all_gather_into_tensor(whole, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.broadcast(part, 0)
        dist.send(part, 1)
        dist.recv(part, 1)
        dist.barrier()
    assert counter.counts == {
        "all_reduce": {"count": 2, "bytes": 24},
        "all_gather": {"count": 1, "bytes": 48},
        "reduce_scatter": {"count": 1, "bytes": 48},
        "broadcast": {"count": 1, "bytes": 12},
        "send": {"count": 1, "bytes": 12},
        "recv": {"count": 1, "bytes": 12},
    }


def test_functional_collectives_count_like_the_others(group):
    part, whole = torch.zeros(3), torch.zeros(3 * RANKS)
    world = dist.group.WORLD
    with CollectiveCounter() as counter:
        functional.all_reduce(part, "sum", world).wait()
        functional.all_gather_tensor(part, 0, world).wait()
        functional.reduce_scatter_tensor(whole, "sum", 0, world).wait()
    assert counter.counts == {
        "all_reduce": {"count": 1, "bytes": 12},
        "all_gather": {"count": 1, "bytes": 48},
        "reduce_scatter": {"count": 1, "bytes": 48},
    }


def test_a_collective_without_a_kind_is_counted_under_its_own_name(group):
    whole = torch.zeros(RANKS)
    with CollectiveCounter() as counter:
        dist.all_to_all_single(torch.zeros(RANKS), whole)
    (name,) = counter.counts
    assert "alltoall" in name
    assert counter.counts[name]["count"] == 1


@pytest.mark.parametrize("group", [2, 4, 8], indirect=True)
@pytest.mark.parametrize("pattern", ["fsdp", "tp"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_formula_holds_on_any_number_of_ranks(group, pattern: str, dtype: str):
    sizes = {**SIZES, "n_head": 8, "vocab_size": 40}
    step = PATTERNS[pattern](build_model(sizes, 1, CPU, dtype), Training(1e-3, 2, CPU, Stretches(CPU)))
    data = batches(sizes, 8, 2, 1)
    step(*data[0])
    with CollectiveCounter() as counter:
        step(*data[1])
    assert counter.counts == expected(pattern, sizes, 8, 2, dist.get_world_size(), 0, dtype)


@pytest.mark.parametrize("group", [4, 8], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_formula_of_a_mesh_holds_on_any_number_of_ranks(group, dtype: str):
    sizes = {**SIZES, "n_head": 8, "vocab_size": 40, "block_size": 7}  # the positions do not divide by two
    step = PATTERNS["fsdp_tp"](build_model(sizes, 1, CPU, dtype), Training(1e-3, 2, CPU, Stretches(CPU)))
    data = batches(sizes, 8, 2, 1)
    step(*data[0])
    with CollectiveCounter() as counter:
        step(*data[1])
    assert counter.counts == expected("fsdp_tp", sizes, 8, 2, dist.get_world_size(), 0, dtype)


def test_a_mesh_sends_in_smaller_rings():
    counts = {kind: {"count": 1, "bytes": 120} for kind in ("all_reduce", "all_gather", "reduce_scatter")}
    assert sent_bytes(counts, 4, "fsdp_tp") == pytest.approx(2 * 60 + 60 + 60)  # both rings have two ranks
    assert sent_bytes(counts, 8, "fsdp_tp") == pytest.approx(2 * 90 + 60 + 60)  # four by two


def test_ddp_fills_as_many_buckets_as_the_formula_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", environment()["GLOO_SOCKET_IFNAME"])
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    sizes = {**SIZES, "n_embd": 512}
    step = PATTERNS["ddp"](build_model(sizes, 1, CPU), Training(1e-3, 1, CPU, Stretches(CPU)))
    data = batches(sizes, 1, 3, 1)
    for ids, targets in data[:2]:  # the buckets are cut anew after the first
        step(ids, targets)
    with CollectiveCounter() as counter:
        step(*data[2])
    dist.destroy_process_group()
    assert counter.counts == expected("ddp", sizes, 1, 1, 1, 0)
    assert counter.counts["all_reduce"]["count"] > 2


def test_bytes_on_the_wire_are_those_of_rings():
    counts = {
        "all_reduce": {"count": 1, "bytes": 100},
        "all_gather": {"count": 1, "bytes": 100},
        "reduce_scatter": {"count": 1, "bytes": 100},
        "send": {"count": 1, "bytes": 100},
        "recv": {"count": 1, "bytes": 100},
    }
    assert sent_bytes(counts, 4) == pytest.approx(2 * 75 + 75 + 75 + 100)
    assert sent_bytes({}, 1) == 0


def test_fsdp_pads_what_does_not_divide():
    at_two, at_five = (expected("fsdp", SIZES, 8, 2, ranks, 0)["reduce_scatter"]["bytes"] for ranks in (2, 5))
    assert at_two == expected("ddp", SIZES, 8, 2, 2, 0)["all_reduce"]["bytes"]  # every first axis is even
    assert at_five > at_two


def test_the_ends_of_a_pipeline_have_one_neighbour():
    sends = [expected("pp", SIZES, 8, 4, 3, rank)["send"]["count"] for rank in range(3)]
    assert sends == [4, 8, 4]


def test_what_a_rank_hands_to_itself_is_not_sent():
    def sends(pattern: str, ranks: int) -> list[int]:
        return [expected(pattern, SIZES, 8, 4, ranks, rank)["send"]["count"] for rank in range(ranks)]

    assert sends("pp_interleaved", 2) == [3 * 4, 3 * 4]  # 0 1 0 1: three crossings, and back
    assert sends("pp_zbv", 2) == [2 * 4, 2 * 4]  # 0 1 1 0: two of them
    assert sends("pp_zbv", 3) == [2 * 4, 4 * 4, 2 * 4]


def test_ddp_cuts_its_buckets_at_their_limits():
    mib = 1024**2 // 4
    assert buckets({"a": (5,)}) == 1
    assert buckets({"first": (26 * mib,), "second": (1,), "third": (mib,)}) == 2  # third | second, first
    assert buckets({"first": (1,), "second": (25 * mib,), "third": (mib,)}) == 3


def test_live_tensors_are_summed_while_they_live():
    with LiveTensors() as memory:
        kept = torch.zeros(256)
        gone = torch.zeros(1024)
        view = kept.view(16, 16)
        assert memory.live() == 1024 + 4096
        del gone
        assert memory.live() == view.nbytes
        assert memory.peak == 1024 + 4096
        memory.reset_peak()
        assert memory.peak == 1024
        kept.untyped_storage().resize_(0)
        assert memory.live() == 0


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_stages_together_are_the_model(ranks: int):
    model = build_model(SIZES, 1, CPU)
    x, _ = batches(SIZES, 2, 1, 3)[0]
    logits = model(x)
    parts = [StagePart(model, rank, ranks) for rank in range(ranks)]
    for part in parts:
        x = part(x)
    assert torch.equal(x, logits)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    assert set(parameters) == set(model.parameters())
    assert len(parameters) == len(list(model.parameters()))
