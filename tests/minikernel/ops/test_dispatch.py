"""The table of kernels: what tuning writes is what dispatch reads, and there is a default beyond it."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minikernel.ops.dispatch import dispatch
from minikernel.ops.dispatch.dispatch import Choice, choose
from minikernel.ops.softmax_triton_configs import default_config
from minilab.files import read_json
from minilab.records.artefact import RECORDED

ROOT = Path(__file__).parents[3]

CONFIG = {"BLOCK": 256, "ROWS": 2, "num_warps": 1}


def entry(rows, cols, dtype, kernel):
    return {
        "rows": rows,
        "cols": cols,
        "dtype": dtype,
        "kernel": kernel,
        "config": CONFIG if kernel == "triton" else None,
    }


TABLE = [
    entry(64, 600, "float32", "fused"),
    entry(4096, 600, "float32", "triton"),
    entry(64, 600, "bfloat16", "triton"),
]


@pytest.mark.parametrize(
    ("dtype", "rows", "cols", "expected"),
    [
        (torch.float32, 64, 600, "fused"),
        (torch.float32, 100_000, 600, "triton"),
        (torch.float32, 0, 600, "fused"),
        (torch.float16, 4096, 600, "triton"),  # 16 bits are 16 bits
        (torch.float32, 4096, 601, "fused"),  # a width that nobody tuned
    ],
)
def test_the_nearest_rows_of_a_tuned_width_decide(dtype, rows, cols, expected):
    chosen = choose(TABLE, dtype, rows, cols, cuda_c=True)
    assert chosen.kernel == expected
    assert chosen.config == (CONFIG if expected == "triton" else None)


@given(rows=st.integers(0, 1 << 32), cols=st.integers(1, 1 << 20))
def test_a_device_that_nobody_tuned_has_a_default(rows, cols):
    assert choose([], torch.float32, rows, cols, cuda_c=True) == Choice("fused")
    assert choose([], torch.float32, rows, cols, cuda_c=False) == Choice("triton")


def test_without_cupy_no_cuda_c_is_chosen():
    assert choose(TABLE, torch.float32, 64, 600, cuda_c=False) == Choice("triton")


def test_what_tuning_found_is_what_is_read(tmp_path):
    choice = {"rows": 64, "cols": 600, "dtype": "float32", "config": CONFIG, "median_us": 4.0}
    tuning = {
        "kernel": "triton",
        "choices": [
            {**choice, "rival_us": 5.0, "faster": "triton"},
            {**choice, "rows": 4096, "rival_us": 3.0, "faster": "fused"},
        ],
    }
    dispatch.write_table(tmp_path / "tables/a-gpu.json", tuning)
    read = dispatch.table("a-gpu", tmp_path)
    assert choose(read, torch.float32, 64, 600, cuda_c=True) == Choice("triton", CONFIG)
    assert choose(read, torch.float32, 4096, 600, cuda_c=True) == Choice("fused")
    assert dispatch.table("another-gpu", tmp_path) == []


def test_every_tracked_table_is_its_recorded_tunings_and_holds_kernels_that_can_be_launched():
    for path in dispatch.HERE.glob(dispatch.TABLES):
        recorded = read_json(ROOT / RECORDED / path.stem / "24/autotune.json")
        assert dispatch.table(path.stem) == dispatch.dispatch_table(recorded)
        for row in dispatch.table(path.stem):
            chosen = choose([row], getattr(torch, row["dtype"]), row["rows"], row["cols"], cuda_c=True)
            assert chosen.kernel in ("fused", "triton")
            assert (chosen.config is None) == (chosen.kernel == "fused")


HOST_BOUND_US = 20  # launches of Triton's that take less wait for the host, whatever the configuration


def losses(cuda_c: bool) -> dict[tuple, float]:
    """What a card that nobody tuned loses at each shape that the record's card was tuned for, without its table.

    With `cuda_c`, over the kernel that its table names; without, over the best configuration of all that were tried.
    """
    tuning = read_json(ROOT / RECORDED / "h200/24/autotune.json")
    tried: dict[tuple, dict[str, float]] = {}
    for row in tuning["tried"]:
        if row["median_us"] is not None:
            place = row["rows"], row["cols"], row["dtype"]
            tried.setdefault(place, {})[str(sorted(row["config"].items()))] = row["median_us"]
    found = {}
    for tuned in tuning["choices"]:
        place = tuned["rows"], tuned["cols"], tuned["dtype"]
        dtype = getattr(torch, tuned["dtype"])
        chosen = choose([], dtype, tuned["rows"], tuned["cols"], cuda_c)
        default = str(sorted(default_config(tuned["cols"], dtype.itemsize).items()))
        took = tuned["rival_us"] if chosen.kernel == "fused" else tried[place][default]
        if not cuda_c:
            found[place] = took / min(tried[place].values())
        else:
            found[place] = took / (tuned["rival_us"] if tuned["faster"] == "fused" else tuned["median_us"])
    return found


def test_without_its_table_a_card_is_hardly_slower():
    """The rule for a card that nobody tuned, at each shape of one that was."""
    assert len(losses(cuda_c=True)) == 20
    assert max(losses(cuda_c=True).values()) <= 1.02
    tuning = read_json(ROOT / RECORDED / "h200/24/autotune.json")
    long = {(c["rows"], c["cols"], c["dtype"]) for c in tuning["choices"] if c["rival_us"] > HOST_BOUND_US}
    bare = {place: lost for place, lost in losses(cuda_c=False).items() if place in long}
    assert len(bare) == 14
    beyond = {place for place, lost in bare.items() if lost > 1.02}
    assert beyond <= {(4096, 131072, "bfloat16")}  # 2.2 %
    assert max(bare.values()) < 1.025
