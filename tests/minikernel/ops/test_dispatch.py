"""The table of kernels: what tuning writes is what dispatch reads, and there is a default beyond it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minikernel.ops import softmax_cuda, softmax_fused
from minikernel.ops.dispatch import dispatch
from minikernel.ops.dispatch.dispatch import Choice, choose
from minikernel.ops.softmax_cuda import Limits
from minikernel.ops.softmax_fused import fused_plan
from minikernel.ops.softmax_triton_configs import default_config
from minikernel.proof.compile_cuda import _compile_with_nvrtc, cuda_compiler
from minikernel.proof.cubin import resource_usage
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
        config = chosen.config or default_config(tuned["cols"], dtype.itemsize)
        took = tuned["rival_us"] if chosen.kernel == "fused" else tried[place][str(sorted(config.items()))]
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
    assert max(bare.values()) <= 1.02


# What a card says of itself: multiprocessors, threads of one, shared memory of a block, blocks of a cluster; and
# what its datasheet promises of its memory, GB/s. Only the first two were there to be measured.
CARDS = {
    "H200": (132, 2048, 232448, 16, 4800),
    "H100": (132, 2048, 232448, 16, 3350),
    "A100": (108, 2048, 166912, 1, 2039),
    "L4": (58, 1536, 101376, 1, 300),
    "RTX 3090": (82, 1536, 101376, 1, 936),
    "RTX 4090": (128, 1536, 101376, 1, 1008),
    "RTX 5090": (170, 1536, 101376, 8, 1792),
}
LATENCY = 1e-6  # seconds that a load takes at most, with much to spare on each of them
WIDTHS = (600, 1000, 4096, 32768, 50257, 131072)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_any_card_a_launch_fits_and_keeps_its_memory_busy(card: str, dtype: torch.dtype):
    """By Little's law, bytes in flight are bandwidth times latency; half of what moves is read."""
    multiprocessors, threads, shared, blocks, bandwidth = CARDS[card]
    needed = bandwidth * 1e9 / 2 * LATENCY / multiprocessors
    for cols in WIDTHS:
        plan = fused_plan(dtype, cols, cols != 50257, Limits(shared, blocks))
        assert plan.threads <= 1024
        assert plan.blocks <= blocks
        assert plan.shared_bytes + 8 * 32 * plan.blocks + 16 <= shared
        # 64 registers a thread let 1,024 threads in, wherever the compiler was asked
        resident = min(threads, 1024) // plan.threads
        row = cols * dtype.itemsize / plan.blocks
        reads = row if "long" not in plan.expression else plan.threads * 4 * 16
        assert resident * plan.rows * reads > needed, (cols, plan)


@pytest.mark.parametrize("card", CARDS)
def test_a_row_that_a_card_can_hold_is_read_once(card: str):
    """GPT-2's 50,257 columns fit any of them. Read twice is what neither registers nor shared memory hold."""
    shared, blocks = CARDS[card][2], CARDS[card][3]
    for dtype in (torch.float32, torch.bfloat16):
        for cols in (50257, 131072, 1 << 19):
            plan = fused_plan(dtype, cols, cols != 50257, Limits(shared, blocks))
            # registers of 1,024 threads, eight vectors each, and 8 KB of shared memory left for what goes with them
            room = min(blocks, 8) * ((1024 * 8 * 16) + shared - 8192 - 16384)
            if cols * dtype.itemsize <= room:
                assert "fused_long" not in plan.expression, (cols, dtype)
    held = fused_plan(torch.float32, 50257, False, Limits(shared, blocks))
    assert held.expression.startswith("fused_shared")
    assert held.shared_bytes >= 50257 * 4 - 1024 * 8 * 16


@pytest.mark.skipif(cuda_compiler() != "nvrtc", reason="needs NVRTC")
@pytest.mark.parametrize("architecture", [80, 89])
def test_what_holds_long_rows_compiles_for_cards_without_clusters(architecture: int):
    """1,024 threads of it share 65,536 registers."""
    source = softmax_cuda.HERE / softmax_fused.SOURCE
    options = [*softmax_cuda.COMPILER_OPTIONS, f"-arch=sm_{architecture}", f"-I{source.parent}"]
    expressions = [f"fused_shared<{c_type}, 8>" for c_type in ("float", "bfloat16")]
    code, names = _compile_with_nvrtc(source, options, expressions)
    assert sorted(names.values()) == sorted(expressions)
    assert all(kernel["registers"] <= 64 for kernel in resource_usage(code))


def test_shared_memory_is_what_a_card_has_and_clusters_are_newer(monkeypatch: pytest.MonkeyPatch):
    ada = SimpleNamespace(shared_memory_per_block_optin=101376)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: ada)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    for cached in (softmax_cuda.largest_shared_bytes, softmax_cuda.limits_of):
        monkeypatch.setattr(softmax_cuda, cached.__name__, cached.__wrapped__)
        monkeypatch.setattr(softmax_fused, cached.__name__, cached.__wrapped__)
    assert softmax_fused.room_of.__wrapped__(0) == Limits(101376, 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))  # which copies only by registers
    assert softmax_fused.room_of.__wrapped__(0) == Limits(0, 1)
