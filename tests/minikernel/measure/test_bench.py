"""The bench of one kernel, on the CPU: rows by the schema, ratios by the samples, wrong kernels refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from minikernel.measure import recompute
from minikernel.measure.bench import bench_kernel
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.records.verify import differences

PARAMS = {"shapes": [[8, 600], [64, 7]], "dtype": "float32", "launches": 100, "warmup": 3, "seed": 42}
SCHEMA = read_schema(Path(__file__).parents[3] / "schemas/bench.schema.yaml")
ROW_SCHEMA = {**SCHEMA["properties"]["rows"], "$defs": SCHEMA["$defs"]}


def run(softmax, name="mine", params=PARAMS):
    return bench_kernel(name, softmax, lambda rows, cols: None, params, "cpu", lambda line: None)


def test_rows_fit_the_schema_and_follow_from_their_samples():
    rows = run(lambda x: torch.softmax(x, -1))
    check_schema(rows, ROW_SCHEMA, "rows")
    assert [[row["rows"], row["cols"]] for row in rows] == PARAMS["shapes"]
    for row in rows:
        samples = row["samples_us"]
        assert set(samples) == {"mine", "again", "copy", "F.softmax"}
        assert row["median_us"] == pytest.approx(np.median(samples["mine"]))
        assert row["ratio_to_reference"] == pytest.approx(np.median(samples["mine"]) / np.median(samples["F.softmax"]))
        moved = 2 * 4 * row["rows"] * row["cols"]
        assert row["gb_per_s"] == pytest.approx(moved / row["median_us"] / 1e3)
        assert row["flop_per_byte"] == 5 / 8
        assert 0 < row["max_rel_err"] < 1e-6
    assert list(differences({"rows": rows}, recompute.bench_rows({"rows": rows}))) == []
    rows[1]["samples_us"]["again"] = [0.5]
    wrong = next(differences({"rows": rows}, recompute.bench_rows({"rows": rows})))
    assert wrong["where"] == "rows[1].noise_floor"


def test_the_reference_is_measured_once_when_it_is_the_kernel():
    row = run(lambda x: torch.softmax(x, -1), name="F.softmax")[0]
    assert set(row["samples_us"]) == {"F.softmax", "again", "copy"}
    assert row["ratio_to_reference"] == 1


def test_a_tuned_kernel_is_launched_with_the_tracked_choice():
    seen = []

    def softmax(x, config):
        seen.append(config["BLOCK"])
        return torch.softmax(x, -1)

    params = {**PARAMS, "shapes": [[8, 600]]}
    rows = bench_kernel("mine", softmax, lambda r, c: {"BLOCK": r * c}, params, "cpu", lambda line: None)
    assert set(seen) == {4800}
    assert rows[0]["config"] == {"BLOCK": 4800}


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros_like,
        lambda x: torch.softmax(x, -1) * (1 + 1e-4),
        lambda x: torch.softmax(x, 0),
        lambda x: torch.full_like(x, torch.nan),
    ],
    ids=["zeros", "off by 1e-4", "wrong axis", "nan"],
)
def test_a_wrong_kernel_is_refused(wrong):
    said = r"kernel mine on cpu, while timed at shape \(8, 600\) in float32: .* the kernel is wrong there"
    with pytest.raises(LabError, match=said):
        run(wrong)
