"""The fused LM head: torch's two kernels wherever it does not fuse, float32-accurate where it does."""

import shutil
import subprocess

import pytest
import torch
import torch.nn.functional as F

from minikernel import linear_softmax
from minikernel.ops.lm_head import (
    COLUMNS,
    FEATURES,
    LEAST_ROWS,
    PRODUCTS,
    SHARED_BYTES,
    SOURCE,
    THREADS,
    TILE_ROWS,
    fused_linear_softmax,
    fuses,
    takes,
)
from minikernel.ops.softmax_cuda import source
from minikernel.proof.accuracy import relative_error
from minikernel.proof.cubin import ask_cuda_tool, resource_usage
from minikernel.proof.proof import poisoned_memory
from minilab import LabError

gpu = pytest.mark.gpu
needs_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an H100 or H200"
)
ROWS = (1, 2, 15, 16, 17, 132 * 64 - 1, 132 * 64 + 1, 20_000)  # around the tile's 16 and the grid's 132 x 4 x 16
TOLERANCE = 1e-6
MANY_ROWS_TOLERANCE = 1.2e-6  # over a million rows: the largest of 6e8 errors
TF32_TOLERANCE = 4e-3


def head(columns=COLUMNS, features=FEATURES, device="cpu", seed=0):
    """A weight of N(0, 1/8) and a bias of N(0, 1): logits of about N(0, 1), up to 6."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(columns, features, generator=generator) / 8
    return weight.to(device), torch.randn(columns, generator=generator).to(device)


def hidden(*shape, device="cpu", seed=1):
    return torch.randn(*shape, FEATURES, generator=torch.Generator().manual_seed(seed)).to(device)


def float64_softmax(h, weight, bias=None):
    return F.softmax(F.linear(h.double(), weight.double(), None if bias is None else bias.double()), dim=-1)


def error_of(result, h, weight, bias=None):
    return relative_error(result, float64_softmax(h, weight, bias))


# Anywhere


@pytest.mark.parametrize("precision", PRODUCTS)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (0,), ()])
def test_on_a_cpu_it_is_torchs_linear_and_softmax(shape, precision):
    h, (weight, bias) = hidden(*shape), head()
    assert not fuses(h, weight, bias)
    result = linear_softmax(h, weight, bias, precision)
    assert torch.equal(result, F.softmax(F.linear(h, weight, bias), dim=-1))
    assert result.shape == (*shape, COLUMNS)


@pytest.mark.parametrize(("columns", "features", "dtype"), [(50, 8, torch.float32), (600, 64, torch.bfloat16)])
def test_other_widths_and_dtypes_fall_back(columns, features, dtype):
    weight, _ = head(columns, features)
    h = torch.randn(7, features).to(dtype)
    result = linear_softmax(h, weight.to(dtype))
    assert result.dtype == dtype
    assert torch.equal(result, F.softmax(F.linear(h, weight.to(dtype)), dim=-1))


def test_a_gradient_flows_through_the_fallback():
    h, (weight, bias) = hidden(4).requires_grad_(), head()
    linear_softmax(h, weight, bias)[:, 0].sum().backward()
    assert h.grad.abs().sum() > 0


def test_an_unknown_precision_is_refused_with_a_sentence():
    with pytest.raises(LabError, match=r"no precision 'half'; choose from float32, tf32"):
        linear_softmax(hidden(2), head()[0], precision="half")


def test_the_kernel_itself_refuses_with_a_sentence_what_it_cannot_take():
    h, (weight, bias) = hidden(LEAST_ROWS), head()
    with pytest.raises(
        LabError, match=r"takes float32 CUDA tensors of 64 features and 600 columns.*use linear_softmax"
    ):
        fused_linear_softmax(h, weight, bias)
    with pytest.raises(LabError, match=r"no precision 'half'"):
        fused_linear_softmax(h, weight, bias, "half")


def test_shapes_that_do_not_fit_are_torchs_error():
    with pytest.raises(RuntimeError):
        linear_softmax(hidden(2), torch.zeros(COLUMNS, FEATURES + 1))


def test_the_launcher_knows_the_sources_sizes():
    text = source(SOURCE)
    assert f"sizeof(Shared) == {SHARED_BYTES}" in text
    assert f"#define COLUMNS {COLUMNS}\n" in text
    assert f"#define FEATURES {FEATURES}\n" in text
    assert f"#define TILE_ROWS {TILE_ROWS} " in text
    assert "#define GROUPS 4 " in text
    assert "#define GROUP_THREADS 128\n" in text
    assert THREADS == 4 * 128
    assert "#include" not in text


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
def test_it_compiles_for_sm_90_on_tensor_cores_and_nothing_spills(tmp_path):
    unit, cubin = tmp_path / "linear_softmax.cu", tmp_path / "linear_softmax.cubin"
    arguments = "const float*, const float*, const float*, float*, long long"
    instances = [f"template __global__ void linear_softmax<{n}>({arguments});" for n in PRODUCTS.values()]
    unit.write_text("\n".join([source(SOURCE), *instances]))
    subprocess.run(["nvcc", "--std=c++17", "-arch=sm_90", "-cubin", str(unit), "-o", str(cubin)], check=True)
    kernels = resource_usage(cubin.read_bytes())
    assert len(kernels) == len(PRODUCTS)
    assert [kernel["stack_bytes"] for kernel in kernels] == [0, 0]
    assert max(kernel["registers"] for kernel in kernels) * THREADS <= 65536
    machine = ask_cuda_tool("cuobjdump", "--dump-sass", str(cubin))
    assert "HMMA.16816.F32" in machine
    assert "LDSM" in machine
    assert "STG.E.128" in machine


# On a Hopper GPU


@gpu
@needs_hopper
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_it_is_float32_accurate_and_writes_every_element(rows, with_bias):
    h, (weight, bias) = hidden(rows, device="cuda"), head(device="cuda")
    bias = bias / 4 if with_bias else None
    assert takes(h, weight, bias)
    with poisoned_memory():
        result = fused_linear_softmax(h, weight, bias)
    assert error_of(result, h, weight, bias) <= TOLERANCE


@gpu
@needs_hopper
def test_tf32_is_as_far_off_as_it_says_and_no_further():
    h, (weight, bias) = hidden(4096, device="cuda"), head(device="cuda")
    error = error_of(fused_linear_softmax(h, weight, bias, "tf32"), h, weight, bias)
    assert TOLERANCE < error <= TF32_TOLERANCE


@gpu
@needs_hopper
@pytest.mark.parametrize("h_scale", [1e-30, 1e-20, 1e20, 1e30])
def test_any_range_that_float32_holds_is_as_accurate(h_scale):
    h, (weight, _) = hidden(500, device="cuda"), head(device="cuda")
    h, weight = h * h_scale, weight / h_scale
    assert error_of(fused_linear_softmax(h, weight), h, weight) <= TOLERANCE


@gpu
@needs_hopper
@pytest.mark.parametrize("which", ["rows", "columns"])
def test_rows_and_columns_may_differ_in_scale(which):
    h, (weight, bias) = hidden(COLUMNS, device="cuda"), head(device="cuda")
    scale = torch.logspace(-30, 0, COLUMNS, device="cuda")[:, None]
    h, weight = (h * scale, weight) if which == "rows" else (h, weight * scale)
    assert error_of(fused_linear_softmax(h, weight, bias), h, weight, bias) <= TOLERANCE


@gpu
@needs_hopper
@pytest.mark.parametrize("scale", [3, 10, 100])
def test_large_logits_are_no_worse_than_torchs(scale):
    h, (weight, bias) = scale * hidden(2000, device="cuda"), head(device="cuda")
    error = error_of(fused_linear_softmax(h, weight, bias), h, weight, bias)
    assert error <= error_of(F.softmax(F.linear(h, weight, bias), dim=-1), h, weight, bias)


@gpu
@needs_hopper
@pytest.mark.parametrize("lowest", [-torch.inf, torch.finfo(torch.float32).min])
def test_masked_columns_get_nothing(lowest):
    h, (weight, bias) = hidden(100, device="cuda"), head(device="cuda")
    bias[::3] = lowest
    result = fused_linear_softmax(h, weight, bias)
    assert (result[:, ::3] == 0).all()
    assert error_of(result, h, weight, bias) <= 1.5 * TOLERANCE


@gpu
@needs_hopper
def test_zeros_are_uniform_and_all_columns_masked_are_nan():
    h, (weight, bias) = torch.zeros(20, FEATURES, device="cuda"), head(device="cuda")
    assert error_of(fused_linear_softmax(h, weight), h, weight) <= 1e-7
    assert fused_linear_softmax(h, weight, torch.full_like(bias, -torch.inf)).isnan().all()


@gpu
@needs_hopper
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["h", "weight", "bias"])
def test_nan_and_infinity_go_where_they_go_in_torch(where, value):
    h, (weight, bias) = hidden(100, device="cuda"), head(device="cuda")
    {"h": h, "weight": weight, "bias": bias[None]}[where][0, 5 if where == "bias" else 3] = value
    assert error_of(fused_linear_softmax(h, weight, bias), h, weight, bias) <= 1.5 * TOLERANCE


@gpu
@needs_hopper
def test_any_leading_dimensions_and_any_strides():
    (weight, bias), wide = head(device="cuda"), hidden(6, 2, device="cuda")
    h = wide.expand(4, 6, 2, FEATURES)[:, ::2].transpose(0, 1)
    assert not h.is_contiguous()
    assert error_of(fused_linear_softmax(h, weight, bias), h, weight, bias) <= TOLERANCE
    unaligned = torch.randn(33 * FEATURES + 1, device="cuda")[1:].view(33, FEATURES)
    assert error_of(fused_linear_softmax(unaligned, weight), unaligned, weight) <= TOLERANCE
    columns_first = weight.T.contiguous().T
    assert torch.equal(fused_linear_softmax(h, columns_first, bias), fused_linear_softmax(h, weight, bias))
    assert fused_linear_softmax(hidden(0, device="cuda"), weight).shape == (0, COLUMNS)
    assert fused_linear_softmax(hidden(device="cuda"), weight).shape == (COLUMNS,)


@gpu
@needs_hopper
def test_it_runs_on_torchs_current_stream_and_in_a_cuda_graph_the_same_each_time():
    h, (weight, bias) = hidden(3000, device="cuda"), head(device="cuda")
    first = fused_linear_softmax(h, weight, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = fused_linear_softmax(h, weight, bias)
    for _ in range(3):
        captured.fill_(torch.nan)
        graph.replay()
        assert torch.equal(captured, first)


@gpu
@needs_hopper
def test_a_gradient_on_the_gpu_takes_the_fallback():
    h, (weight, bias) = hidden(LEAST_ROWS, device="cuda").requires_grad_(), head(device="cuda")
    assert not fuses(h, weight, bias)
    linear_softmax(h, weight, bias)[:, 0].sum().backward()
    assert h.grad.abs().sum() > 0
    with torch.no_grad():
        assert fuses(h, weight, bias)


@gpu
@needs_hopper
@pytest.mark.parametrize("precision", PRODUCTS)
def test_few_rows_are_torchs_and_many_the_kernels(precision):
    weight, bias = head(device="cuda")
    few, many = hidden(LEAST_ROWS - 1, device="cuda"), hidden(LEAST_ROWS // 2, 2, device="cuda")
    assert takes(few, weight, bias)
    assert not fuses(few, weight, bias)
    assert fuses(many, weight, bias)
    torchs = F.softmax(F.linear(few, weight, bias), dim=-1)
    assert torch.equal(linear_softmax(few, weight, bias, precision), torchs)
    kernels = fused_linear_softmax(many, weight, bias, precision)
    assert torch.equal(linear_softmax(many, weight, bias, precision), kernels)
    assert not torch.equal(kernels, F.softmax(F.linear(many, weight, bias), dim=-1))


@gpu
@needs_hopper
@pytest.mark.parametrize(("columns", "features", "dtype"), [(600, 32, torch.float32), (600, 64, torch.bfloat16)])
def test_other_widths_and_dtypes_fall_back_on_the_gpu_too(columns, features, dtype):
    weight = head(columns, features, "cuda")[0].to(dtype)
    h = torch.randn(LEAST_ROWS, features, device="cuda", dtype=dtype)
    assert not takes(h, weight)
    assert torch.equal(linear_softmax(h, weight), F.softmax(F.linear(h, weight), dim=-1))


@gpu
@needs_hopper
@pytest.mark.parametrize(("initial", "tolerance"), [("normal", MANY_ROWS_TOLERANCE), ("nn.Linear's", TOLERANCE)])
def test_over_a_million_rows_the_error_is_what_the_docstring_says_and_below_torchs(initial, tolerance):
    (weight, bias), rows, chunk = head(device="cuda"), 1 << 20, 1 << 16
    if initial == "normal":
        bias = None
    else:
        bound = FEATURES**-0.5
        weight, bias = weight.uniform_(-bound, bound), bias.uniform_(-bound, bound)
    h = hidden(rows, device="cuda")
    result = linear_softmax(h, weight, bias)
    pieces = [slice(i, i + chunk) for i in range(0, rows, chunk)]
    ours = max(error_of(result[piece], h[piece], weight, bias) for piece in pieces)
    eager = max(
        error_of(F.softmax(F.linear(h[piece], weight, bias), dim=-1), h[piece], weight, bias) for piece in pieces
    )
    assert ours <= tolerance
    assert ours < eager
