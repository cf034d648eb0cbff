"""The bench of a CPU: one process, one copy, rows that follow from their samples, wrong kernels refused."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from minikernel.measure import recompute
from minikernel.measure.cpu.bench import ROWS_AT_ONCE, above_roof, bench_on_cpu
from minikernel.measure.timing import Timing
from minikernel.ops.ladder.table import load_kernel
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.device import has_cpp_compiler
from minilab.records.verify import differences

PARAMS = {"shapes": [[8, 600], [64, 700]], "dtype": "float32", "launches": 100, "warmup": 1, "seed": 42}
SCHEMA = read_schema(Path(__file__).parents[4] / "schemas/bench.schema.yaml")
ROW_SCHEMA = {**SCHEMA["properties"]["rows"], "$defs": SCHEMA["$defs"]}
KERNELS = {name: load_kernel(name) for name in ("numpy", "F.softmax")}


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return bench_on_cpu(KERNELS, PARAMS, lambda line: None)


def test_rows_fit_the_schema_and_follow_from_their_samples(rows: list[dict]):
    check_schema(rows, ROW_SCHEMA, "rows")
    assert [(row["kernel"], [row["rows"], row["cols"]]) for row in rows] == [
        (kernel, shape) for shape in PARAMS["shapes"] for kernel in KERNELS
    ]
    for row in rows:
        samples = row["samples_us"]
        beside = {"copy", "fresh_copy", "again", "F.softmax"} | ({"streaming_copy"} if has_cpp_compiler() else set())
        assert set(samples) == {row["kernel"], *beside}
        assert row["median_us"] == pytest.approx(np.median(samples[row["kernel"]]))
        assert row["noise_floor"] == pytest.approx(
            abs(np.median(samples["again"]) / np.median(samples["F.softmax"]) - 1)
        )
    assert list(differences({"rows": rows}, recompute.bench_rows({"rows": rows}))) == []


def test_all_rows_are_held_against_the_copy_of_the_largest_shape(rows: list[dict]):
    assert len({row["copy_gb_per_s"] for row in rows}) == 1
    assert rows[0]["ceiling"]["samples_us"] == rows[-1]["samples_us"]["copy"]
    assert rows[0]["ceiling"]["amount"] == 2 * 4 * 64 * 700


def test_the_faster_of_two_kernels_has_the_larger_share(rows: list[dict]):
    for shape in PARAMS["shapes"]:
        here = sorted((row for row in rows if [row["rows"], row["cols"]] == shape), key=lambda row: row["median_us"])
        assert all(fast["fraction_of_copy"] >= slow["fraction_of_copy"] for fast, slow in pairwise(here))


def test_a_sample_that_somebody_changed_is_found(rows: list[dict]):
    changed = [{**rows[0], "samples_us": {**rows[0]["samples_us"], "again": [0.5]}}]
    wrong = next(differences({"rows": changed}, recompute.bench_rows({"rows": changed})))
    assert wrong["where"] == "rows[0].noise_floor"


def test_only_what_beats_every_copy_is_distrusted():
    timings = {"mine": Timing([10.0]), "copy": Timing([14.0]), "streaming_copy": Timing([11.0])}
    assert not above_roof("mine", timings)
    assert above_roof("mine", timings | {"streaming_copy": Timing([12.0])})
    del timings["streaming_copy"]
    assert above_roof("mine", timings)


def test_a_wrong_kernel_is_refused_with_its_name_and_shape():
    said = r"kernel mine on cpu, while timed at shape \(8, 600\) in float32: .* the kernel is wrong there"
    with pytest.raises(LabError, match=said):
        bench_on_cpu({**KERNELS, "mine": lambda x: torch.softmax(x, -1) * (1 + 1e-4)}, PARAMS, lambda line: None)


def wrong_in_its_last_row(x: torch.Tensor) -> torch.Tensor:
    result = torch.softmax(x, -1)
    result[-1] *= 1 + 1e-4
    return result


@pytest.mark.parametrize("wrong", [wrong_in_its_last_row, lambda x: torch.softmax(x, -1)[:-1]])
def test_no_row_of_many_goes_unread(wrong):
    many = {**PARAMS, "shapes": [[ROWS_AT_ONCE + 2, 8]]}
    with pytest.raises(LabError, match=r"kernel mine on cpu, while timed at shape \(514, 8\)"):
        bench_on_cpu({**KERNELS, "mine": wrong}, many, lambda line: None)


def test_without_the_reference_there_is_nothing_to_hold_a_kernel_against():
    with pytest.raises(LabError, match=r"name it under references\.cpu"):
        bench_on_cpu({"numpy": KERNELS["numpy"]}, PARAMS, lambda line: None)
