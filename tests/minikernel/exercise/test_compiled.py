"""C++ of an exercise is compiled, called, and what it touches is counted."""

import shutil

import pytest
import torch

from minikernel.exercise.compiled import compiled
from minikernel.exercise.traffic import count_traffic
from minikernel.ops.cpu.build import NATIVE, OPENMP
from minikernel.reasons import Refusal
from minilab.device import has_cpp_compiler

pytestmark = pytest.mark.skipif(not has_cpp_compiler(), reason="no C++ compiler")

HEAD = '#include "exercise.h"\nextern "C" void softmax(const float* x, float* y, long rows, long cols) {\n'
X = torch.linspace(-3, 3, 512 * 600).view(512, 600)
LOOP = "for (long i = 0; i + LANES <= rows * cols; i += LANES) "


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("built")))
        yield


def body(text: str):
    return compiled(f"{HEAD}{text}\n}}")


def test_it_is_called_on_rows_of_any_layout():
    twice = body("for (long i = 0; i < rows * cols; i++) y[i] = cols * x[i];")
    assert torch.equal(twice(X), 600 * X)
    assert torch.equal(twice(X.T), 512 * X.T)
    assert twice(X[:0]).shape == (0, 600)
    assert twice(X.view(2, 256, 600)).shape == (2, 256, 600)
    y = torch.empty_like(X)
    assert twice(X, y).data_ptr() == y.data_ptr()


def test_the_exponential_of_the_header_is_that_of_float64():
    exp = body(f"{LOOP}store(y + i, exp(load(x + i)));")
    x = torch.linspace(-110, 95, 1 << 16)
    exact, got = x.double().exp(), exp(x).double()
    normal = (exact > 1.2e-38) & (exact < 3.4e38)
    assert ((got - exact).abs() / exact)[normal].max() < 4e-7
    assert torch.isinf(got[exact > 3.41e38]).all()
    special = exp(torch.tensor([float("nan"), float("inf"), -float("inf"), -1e30, 1e4, 0, 1, -1]))
    assert special[:5].isnan().tolist() == [True, False, False, False, False]
    assert special[1:6].tolist() == [float("inf"), 0, 0, float("inf"), 1]


@pytest.mark.parametrize(
    ("does", "reads", "writes"),
    [
        (f"{LOOP}stream(y + i, load(x + i));", 1, 1),
        (f"{LOOP}store(y + i, load(x + i));", 2, 1),
        ("for (long i = 0; i < rows * cols; i++) y[i] = x[i];", 2, 1),
        ("__builtin_memcpy(y, x, 4 * rows * cols);", 2, 1),
        (f"{LOOP}stream(y + i, load(x + i));\n{LOOP}stream(y + i, load(y + i));", 3, 3),  # half a line each time
        (f"{LOOP}stream(y + i, load(x + i));\n{LOOP}store(y + i, load(x + i));", 3, 2),
        ("#pragma omp parallel for\n for (long r = 0; r < rows; r++) for (int pass = 0; pass < 3; pass++)"
         " for (long c = 0; c < cols; c++) y[r * cols + c] = x[r * cols + c] + pass;", 2, 1),
    ],
)  # fmt: skip
def test_what_goes_between_memory_and_a_cache_is_counted(does: str, reads: float, writes: float):
    traffic = count_traffic(body(does), X, cache_bytes=64 << 10)
    assert (traffic.reads, traffic.writes) == pytest.approx((reads, writes), rel=0.01)
    assert (traffic.launches, traffic.operations) == (0, [])


def test_a_count_is_the_same_each_time_however_many_threads_share_the_work():
    copy = body(
        "#pragma omp parallel for num_threads(4) schedule(static, 1)\n"
        "for (long i = 0; i < rows * cols / LANES; i++) stream(y + i * LANES, load(x + i * LANES));"
    )
    [count] = {count_traffic(copy, X, cache_bytes=64 << 10)[:2] for _ in range(10)}
    assert count == pytest.approx((1, 1), rel=0.01)


def test_after_a_count_it_is_the_fast_one_again():
    copy = body(f"{LOOP}stream(y + i, load(x + i));")
    count_traffic(copy, X, cache_bytes=64 << 10)
    assert copy.counting is None
    assert torch.equal(copy(X), X)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"{HEAD} x }}", "its C\\+\\+ does not compile: 3:.*error: expected"),
        ("int a;", 'its C\\+\\+ does not compile: it has no extern "C" function softmax'),
        (f'#include "no_such.h"\n{HEAD}}}', "its C\\+\\+ does not compile: .*no_such.h"),
    ],
)
def test_what_does_not_compile_is_one_sentence(source: str, said: str):
    with pytest.raises(Refusal, match=said) as refused:
        compiled(source)(X)
    assert refused.value.reason["code"] == "not_compiled"
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", [NATIVE, OPENMP])
def test_an_option_that_the_compiler_does_not_have_is_left_out(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path):
    picky = tmp_path / "picky"
    picky.write_text(
        f'#!/bin/sh\ncase " $* " in *" {option} "*) echo "error: no {option}" >&2; exit 1;; esac\nexec g++ "$@"\n'
    )
    picky.chmod(0o755)
    monkeypatch.setenv("CXX", str(picky))
    each = "for (long i = 0; i < rows * cols; i += LANES) stream(y + i, load(x + i));"
    copy = body(f"#pragma omp parallel for\n{each} // without {option}")
    assert torch.equal(copy(X), X)
    assert count_traffic(copy, X, cache_bytes=64 << 10)[:2] == pytest.approx((1, 1), rel=0.01)


def test_other_types_are_refused():
    with pytest.raises(Refusal, match=r"takes float32 on the CPU, not torch\.float64 on cpu"):
        body("")(X.double())


def test_a_machine_without_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Refusal, match=r"no C\+\+ compiler no-such-compiler here; install g\+\+, or set CXX") as refused:
        compiled(HEAD)(X)
    assert refused.value.reason["code"] == "no_compiler"


@pytest.mark.skipif(not shutil.which("clang++"), reason="no clang++")
def test_clang_compiles_it_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "clang++")
    assert torch.equal(body(f"{LOOP}stream(y + i, load(x + i)); // clang")(X), X)
