"""The CPU's rungs: right on the whole proof, on any threads, in any shape; what they do not take is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minikernel.ops.cpu import build, pool, rungs
from minikernel.ops.cpu.rungs import streaming_copy
from minikernel.ops.ladder.table import LADDERS, kernels
from minikernel.proof.proof import TOLERANCE, numpy_error, prove_kernel
from minilab import LabError
from minilab.device import has_cpp_compiler

pytestmark = pytest.mark.skipif(not has_cpp_compiler(), reason="needs a C++ compiler")
RUNGS = LADDERS["C++"]


@pytest.mark.parametrize("name", RUNGS)
def test_it_passes_the_proof(name: str):
    rows = prove_kernel(name, None, "cpu")
    assert max(row["max_rel_err"] for row in rows) < TOLERANCE["float32"]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["threads", "streaming"])
def test_it_gives_the_same_on_any_number_of_threads(name: str, count: int, threads):
    x = torch.randn(97, 601)  # rows that are no multiple of what a thread takes at once
    expected = kernels["vectors"](x)
    threads(count)
    assert torch.equal(kernels[name](x), expected)


@pytest.mark.parametrize("name", RUNGS)
@settings(max_examples=25)
@given(
    rows=st.integers(0, 40),
    cols=st.integers(0, 1100),
    offset=st.integers(0, 9),
    scale=st.sampled_from([0.0, 1.0, 40.0, 1e5]),
    centre=st.sampled_from([0.0, 300.0, -250.0, 1e4, 3e7]),
    seed=st.integers(0, 1 << 30),
)
def test_it_is_float64s_softmax_wherever_rows_lie(name, rows, cols, offset, scale, centre, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows * cols + offset, generator=generator) * scale + centre
    x = values[offset:].view(rows, cols)
    y = kernels[name](x)
    assert y.shape == x.shape
    assert numpy_error(y, x) <= TOLERANCE["float32"]


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("bits", [0x7FC00001, 0x7FC12345, -1, 0x7F800001])
def test_a_nan_of_any_payload_makes_its_row_nan_and_no_other(name: str, bits: int):
    x = torch.randn(3, 600)
    x[1, 599] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    assert kernels[name](x).isnan().all(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("name", RUNGS)
def test_what_is_masked_has_no_probability_at_all(name: str):
    x = torch.zeros(2, 600)
    x[:, 1::2] = -torch.inf
    assert (kernels[name](x)[:, 1::2] == 0).all()


@pytest.mark.parametrize("name", RUNGS)
def test_what_it_does_not_take_is_refused_with_a_sentence(name: str):
    with pytest.raises(LabError, match=rf"{name} takes float32 tensors on the CPU, not torch\.bfloat16"):
        kernels[name](torch.zeros(2, 3, dtype=torch.bfloat16))
    with pytest.raises(LabError, match="on meta"):
        kernels[name](torch.zeros(2, 3, device="meta"))


def test_results_that_are_kept_stay_as_they_are_under_the_next_calls():
    inputs = [torch.randn(64, 600) for _ in range(5)]
    assert 4 * inputs[0].numel() >= pool.LEAST_BYTES
    kept = [kernels["streaming"](x) for x in inputs]
    assert len({y.data_ptr() for y in kept}) == len(kept)
    for x, y in zip(inputs, kept, strict=True):
        assert numpy_error(y, x) <= TOLERANCE["float32"]


def test_without_a_compiler_a_rung_says_so_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    rungs.function.cache_clear()
    build.built.cache_clear()
    with pytest.raises(LabError, match="no-such-compiler is not here"):
        kernels["loop"](torch.zeros(2, 3))
    assert kernels["numpy"](torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]


def test_a_copy_past_the_caches_is_a_copy():
    for shape in ((64, 600), (33, 601), (3,), (0, 4), ()):
        x = torch.randn(shape)
        assert torch.equal(streaming_copy(x), x)
