"""The CUDA C kernels' launcher: layouts anywhere, the kernels themselves on a GPU."""

import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minikernel.ops import softmax_cuda, softmax_smem
from minikernel.ops.ladder import softmax_warp
from minikernel.ops.ladder.table import LADDERS
from minikernel.ops.registry import SPECS
from minikernel.ops.softmax_cuda import HOPPER, Limits, source
from minikernel.ops.softmax_fused import (
    LAYOUTS,
    LONG,
    fused,
    fused_expression,
    fused_plan,
    instances,
    largest_of,
    layout_for,
)
from minikernel.proof.proof import numpy_error
from minilab import LabError

KERNELS = LADDERS["CUDA C"]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("version", [13, 14])
def test_a_stream_of_torchs_is_handed_to_cupy_as_its_version_has_it(version, monkeypatch):
    """CuPy 13 has only ExternalStream, at which 14.2 warns; an address is no stream to 14's protocol."""
    stream = type("Stream", (), {})
    if version == 14:
        stream.from_external = staticmethod(lambda foreign: ("protocol", *foreign.__cuda_stream__()))
    cuda = SimpleNamespace(Stream=stream, ExternalStream=lambda pointer: ("external", pointer))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    made = softmax_cuda.stream_of.__wrapped__(7)
    assert made == (("external", 7) if version == 13 else ("protocol", 0, 7))


def test_the_installed_cupy_takes_a_stream_without_a_warning():
    cupy = pytest.importorskip("cupy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [softmax_cuda.stream_of.__wrapped__(pointer) for pointer in (0, 7)]
    assert [stream.ptr for stream in made] == [0, 7]
    assert isinstance(made[1], (cupy.cuda.Stream, cupy.cuda.ExternalStream))


@given(cols=st.integers(1, 1 << 21), itemsize=st.sampled_from([2, 4]), aligned=st.booleans())
def test_a_layout_holds_the_whole_row_wherever_it_starts(cols, itemsize, aligned):
    length = 16 // itemsize
    if aligned:  # then every row is whole vectors
        cols = -(-cols // length) * length
    layout = layout_for(cols, itemsize, aligned)
    worst_start = 0 if aligned else length - 1
    if layout.kernel == "fused_short":  # the ends of a row that starts elsewhere are held besides
        assert layout.capacity >= cols // length
    else:
        assert layout in LONG.values() or layout.capacity * length >= worst_start + cols


@given(cols=st.integers(1, 1 << 21), dtype=st.sampled_from(DTYPES), aligned=st.booleans())
def test_a_launch_gives_its_blocks_room_for_the_row(cols, dtype, aligned):
    layout, plan = layout_for(cols, dtype.itemsize, aligned), fused_plan(dtype, cols, aligned)
    assert plan.threads % 32 == 0
    assert plan.threads <= 1024
    assert plan.shared_bytes + plan.blocks * 32 * 8 + 16 <= HOPPER.shared_bytes
    if layout.kernel not in ("fused_short", "fused_long"):
        held = plan.blocks * (plan.threads * layout.vectors + plan.shared_bytes // 16)
        assert held * (16 // dtype.itemsize) >= cols


def whole_vectors_of(cols, itemsize, offset):
    """(16-byte vectors that lie wholly in a row at `offset` bytes past a line, those past the line's start)."""
    head = -offset % 16 // itemsize
    return (cols - head) * itemsize // 16, -(-offset // 16) % 8


@given(cols=st.integers(2049, 700_000), dtype=st.sampled_from(DTYPES), offset=st.integers(0, 31))
def test_the_threads_of_a_launch_cover_every_vector_of_a_row_once(cols, dtype, offset):
    offset *= 4
    layout = layout_for(cols, dtype.itemsize, offset % 16 == 0)
    if layout.kernel in ("fused_short", "fused_long"):
        return
    plan = fused_plan(dtype, cols, offset % 16 == 0)
    whole, past_line = whole_vectors_of(cols, dtype.itemsize, offset)
    capacity = plan.blocks * (plan.threads * layout.vectors + plan.shared_bytes // 16)
    first = -min(past_line, capacity - whole)
    assert first <= 0
    assert first + capacity >= whole


@pytest.mark.parametrize("itemsize", [2, 4])
def test_without_clusters_no_row_is_held_in_shared_memory(itemsize):
    for cols in (600, 50257, 131072, 1 << 20):
        layout = layout_for(cols, itemsize, False, Limits(0, 1))
        assert layout.slots == 0
        assert layout.blocks == 1


@given(cols=st.integers(1, 1 << 20), itemsize=st.sampled_from([2, 4]), aligned=st.booleans())
def test_every_layout_that_can_be_chosen_is_among_the_instances(cols, itemsize, aligned):
    layout = layout_for(cols, itemsize, aligned)
    c_type = {4: "float", 2: "bfloat16"}[itemsize]
    assert fused_expression(layout, c_type, aligned) in instances()


def test_a_row_goes_to_the_smallest_that_holds_it_a_warp_a_block_a_cluster():
    assert layout_for(600, 4, True).kernel == "fused_short"
    assert layout_for(4096, 4, True).kernel == "fused_block"
    assert layout_for(50257, 4, False).kernel == "fused_shared"
    assert layout_for(131072, 4, True).kernel == "fused_cluster"
    assert layout_for(32768, 2, True).kernel == "fused_kept"
    assert layout_for(262144, 4, True).threads > layout_for(131072, 4, True).threads
    assert layout_for(1 << 20, 4, True).kernel == "fused_long"


@pytest.mark.parametrize("name", KERNELS)
def test_sources_are_whole_and_include_no_header(name):
    assert "#include" not in source(f"cuda/{name}.cu")
    assert "__global__" in source(f"cuda/{name}.cu")


def test_block_sizes_are_those_of_the_sources():
    assert f"#define THREADS {softmax_smem.THREADS}" in source("cuda/smem.cu")
    assert f"#define THREADS {softmax_warp.THREADS}" in source("cuda/warp.cu")
    assert f"#define WARP {softmax_warp.WARP}" in source("cuda/warp.cu")
    assert "((VECTORS) >= 4 ? 32 : (VECTORS) >= 2 ? 64 : 128)" in source("cuda/fused.cu")
    assert [softmax_cuda.short_block(vectors) for vectors in (1, 2, 3, 4, 8)] == [128, 64, 64, 32, 32]


@pytest.mark.parametrize("name", KERNELS)
def test_a_cpu_tensor_is_refused_with_a_sentence(name):
    with pytest.raises(LabError, match=f"{name} takes CUDA tensors"):
        SPECS[name].load()(torch.zeros(2, 3))


@gpu
@needs_gpu
@pytest.mark.parametrize("name", KERNELS)
def test_a_float64_tensor_is_refused_with_a_sentence(name):
    with pytest.raises(LabError, match="float64"):
        SPECS[name].load()(torch.zeros(2, 3, dtype=torch.float64, device="cuda"))


@gpu
@needs_gpu
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_on_a_gpu_it_passes_the_proof(name, dtype):
    from minikernel.proof.proof import prove

    assert prove(SPECS[name].load(), "cuda", dtype, name=name)


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_is_right_at_every_layout_and_every_offset(dtype):
    edges = [layout.capacity * 16 // dtype.itemsize for layout in LAYOUTS[dtype.itemsize]]
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 2**-8 + 1e-5}[dtype]
    for cols in {cols for edge in edges for cols in (edge - 1, edge, edge + 1) if cols} | {50257, 131072}:
        for offset in (0, 1, 8):
            x = torch.randn(3 * cols + offset, device="cuda").to(dtype)[offset:].view(3, cols)
            assert numpy_error(fused(x), x) < tolerance, (cols, offset)


@gpu
@needs_gpu
@pytest.mark.parametrize("limits", [Limits(101376, 1), Limits(166912, 1), Limits(101376, 8)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-8 + 1e-5)])
def test_the_longest_rows_that_a_card_of_less_room_holds_are_right(limits, dtype, tolerance):
    """On any card with as much room; the layouts are those of a card with less."""
    cap = softmax_cuda.limits_of(0).blocks
    if limits.blocks > cap or limits.shared_bytes > softmax_cuda.largest_shared_bytes(0):
        pytest.skip("has less room")
    longest = largest_of(limits).capacity * 16 // dtype.itemsize
    for cols in (50257, longest - 64, longest - 9):
        plan = fused_plan(dtype, cols, cols * dtype.itemsize % 16 == 0, limits)
        assert "fused_long" not in plan.expression
        x = torch.randn(3, cols, device="cuda").to(dtype)
        y = torch.empty_like(x)
        softmax_cuda.launch(plan, x, y)
        assert numpy_error(y, x) < tolerance, cols


@gpu
@needs_gpu
@pytest.mark.parametrize("cols", [600, 604, 4096, 50304, 131072, 300000, 700000])
def test_nothing_is_written_outside_the_output(cols):
    x = torch.randn(3, cols, device="cuda")
    slab = torch.full((5, cols), 7.0, device="cuda")
    plan = fused_plan(x.dtype, cols, True, softmax_cuda.limits_of(0))
    softmax_cuda.launch(plan, x, slab[1:4])
    assert (slab[[0, 4]] == 7.0).all()
    assert numpy_error(slab[1:4], x) < 1e-6


@gpu
@needs_gpu
@pytest.mark.parametrize("name", KERNELS)
def test_it_runs_on_torchs_current_stream_and_in_a_cuda_graph(name):
    kernel = SPECS[name].load()
    x = torch.randn(64, 600, device="cuda")
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x)
    x.copy_(torch.randn(64, 600, device="cuda"))
    graph.replay()
    assert numpy_error(y, x) < 1e-6
