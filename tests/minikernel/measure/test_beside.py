"""What jobs beside do to the noise floor: real processes beside, and figures that follow from the samples."""

import time

import pytest
import torch

from minikernel.measure import beside, recompute
from minikernel.measure.timing import Timing
from minilab.config.check import check_schema, read_schema
from minilab.records.verify import differences

CPU = torch.device("cpu")


def test_processes_beside_compute_until_they_are_ended():
    with beside.busy(1) as (process,), beside.counted() as taken:
        began = time.process_time()
        time.sleep(0.4)
        assert process.poll() is None
    assert time.process_time() - began < 0.3  # none of it in this process
    assert taken() > 0.3  # of one core, on a machine that may be busy besides
    assert process.poll() is not None


def measured(monkeypatch: pytest.MonkeyPatch, of: dict[str, float]) -> tuple[dict, list[int]]:
    """A row where each launch of the duplicate takes so much longer in its way; how many processes were asked for."""
    asked: list[int] = []
    ways = iter(beside.ORDER)

    def busy(processes: int):
        asked.append(processes)
        return real(0)

    def measure(providers: dict, inputs: list, warmup: int, launches: int) -> dict[str, Timing]:
        longer = of[next(ways)]
        return {name: Timing([10.0 * (longer if name == "again" else 1)] * 3) for name in providers}

    real = beside.busy
    monkeypatch.setattr(beside, "busy", busy)
    monkeypatch.setattr(beside, "measure", measure)
    return beside.noise_at((8, 16), CPU, 4, 0), asked


def test_both_ways_take_turns_and_have_their_own_noise_floor(monkeypatch: pytest.MonkeyPatch):
    row, asked = measured(monkeypatch, {"alone": 1.01, "beside": 1.05})
    assert asked == [0, 4, 4, 0]
    assert row["alone"]["noise_floor"] == pytest.approx(0.01)
    assert row["beside"]["noise_floor"] == pytest.approx(0.05)
    assert len(row["beside"]["samples_us"]["again"]) == 6  # of two rounds
    noise = {"processes": 4, "rows": [row]}
    artefact = {"samples": {}, "noise": noise}
    assert list(differences(artefact, recompute.ceilings(artefact))) == []
    row["beside"]["noise_floor"] = 0.01
    assert [found["where"] for found in differences(artefact, recompute.ceilings(artefact))] != []


def test_the_row_fits_the_schema(monkeypatch: pytest.MonkeyPatch):
    row, _ = measured(monkeypatch, {"alone": 1.01, "beside": 1.05})
    schema = read_schema("schemas/ceilings.schema.yaml")
    part = {"type": "object", "properties": {"noise": schema["properties"]["noise"]}, "$defs": schema["$defs"]}
    check_schema({"noise": {"processes": 4, "rows": [row]}}, part, "ceilings.json")
    check_schema({"noise": None}, part, "ceilings.json")


@pytest.mark.parametrize(("cores", "kind", "rows"), [(5, "cuda", None), (6, "cuda", 2), (64, "cpu", None)])
def test_where_no_cores_are_left_nothing_is_measured(cores, kind, rows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(beside, "usable_cores", lambda: cores)
    monkeypatch.setattr(beside, "noise_at", lambda *given: {})
    found = beside.noise_beside(torch.device(kind))
    assert (found and len(found["rows"])) == rows


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_long_launch_hardly_moves_when_jobs_come_beside(monkeypatch: pytest.MonkeyPatch):
    """The reason for which the lab lets them: what is timed by the GPU's own clock does not wait for the host."""
    monkeypatch.setattr(beside, "usable_cores", lambda: 6)
    found = beside.noise_beside(torch.device("cuda", 0))
    assert found is not None
    long = found["rows"][-1]
    assert long["beside"]["busy"] > long["alone"]["busy"]
    assert long["beside"]["median_us"] == pytest.approx(long["alone"]["median_us"], rel=0.02)
    assert all(row[name]["graph_noise_floor"] is not None for row in found["rows"] for name in beside.ORDER)
